// Every sentence that explains a failure, by its code: what happened, what it
// means for the work, what to do. Plain, in the present tense, without blame.

import type { ErrorDocument } from '../wire/types';

/** What the sentence may name. All of it is optional: each has a plain word. */
export interface About {
  /** The machine, as people know it. */
  executor?: string | undefined;
  /** The agent's name. */
  agent?: string | undefined;
  /** Since when, as a time of day. */
  since?: string | undefined;
}

export interface Sentence {
  readonly text: string;
  /** Shown small, after the sentence. */
  readonly code: string;
}

type Write = (about: Required<{ [K in keyof About]: string }>, error: ErrorDocument) => string;

const sentences: Record<string, Write> = {
  // The controller.
  INVALID_REQUEST: (_, e) => `The server did not understand this: ${end(e.message)} Nothing was changed.`,
  UNAUTHORIZED: (_, e) => (/password/i.test(e.message) ? 'This is not the password. Try again.' : 'This browser is not signed in. Drafts are kept. Sign in to go on.'),
  FORBIDDEN: (_, e) => `This is not allowed from here: ${end(e.message)}`,
  HOST_REFUSED: () => 'This garcon does not answer under the address in the address bar. Add it with `--allowed-host`, or use the address that garcon printed.',
  ORIGIN_REFUSED: () => 'The request came from another page and was refused. Open garcon under its own address.',
  NOT_FOUND: (_, e) => `This does not exist any more: ${end(e.message)}`,
  CHAT_NOT_FOUND: () => 'This chat was deleted. What you typed is kept until you close it.',
  TURN_NOT_FOUND: () => 'garcon no longer knows this message. Look at the end of the chat for what happened.',
  REQUEST_ID_CONFLICT: () => 'Another message was sent under the same id. Nothing was sent now. Send it again.',
  CHAT_BUSY: (a) => `${a.agent} is working. Put the message in the queue, or steer.`,
  CHAT_IDLE: () => 'Nothing is running here any more.',
  CHAT_OWNER_CHANGED: () => 'Another agent or machine took this chat over. Look at the chat before you send again.',
  CHAT_UNAVAILABLE: (_, e) => `This chat cannot be used now: ${end(e.message)}`,
  QUEUE_FULL: () => 'The queue of this chat is full (256 messages). Wait until some are sent, or remove some.',
  QUEUE_ENTRY_GONE: () => 'This message has left the queue meanwhile. It was sent or removed.',
  REQUEST_GONE: () => 'This request is no longer open. Nothing was answered.',
  ALREADY_RESOLVED: () => 'Somebody answered this already. Your answer was not used.',
  CLI_CONTROLLER_CHANGED: () => 'garcon was restarted since. Nothing was done. Look again and repeat it if you still want it.',
  SHUTTING_DOWN: () => 'garcon is stopping. Nothing was done. It goes on when garcon is back.',
  REQUEST_TOO_LARGE: (_, e) => `This is too large: ${end(e.message)} Send less, or attach it as a file.`,
  UNSUPPORTED_MEDIA_TYPE: (a) => `${a.agent} does not take files of this kind.`,
  TOO_MANY_REQUESTS: (_, e) => `Too many attempts. Try again ${after(e)}.`,
  STORAGE_FULL: () => 'The disk holding the transcripts is full. Nothing more is accepted until there is room; everything shown is saved.',
  STORAGE_FAILED: (_, e) => `The transcripts could not be read or written: ${end(e.message)} What is shown is saved.`,
  LEDGER_QUARANTINED: () => 'The transcript of this chat is damaged and was set aside, with everything that could be kept. `garcon doctor` says where.',
  INTERNAL: (_, e) => `garcon made a mistake here: ${end(e.message)} Its log has the details.`,

  // Executors and agents.
  EXECUTOR_UNAVAILABLE: (a) => `${a.executor} is away${a.since ? ` since ${a.since}` : ''}. Its runs are kept. Nothing was sent; put the message in the queue to send it when ${a.executor} is back.`,
  OPERATION_UNSUPPORTED: (a) => `${a.agent} cannot do this. Nothing was changed.`,
  STALE_RESOURCE: (a) => `${a.executor} was restarted, so this request is gone. Send the message again to continue.`,
  OUTCOME_UNKNOWN: () => 'The link broke while sending. The agent may have received this; it was not sent again.',
  NATIVE_SESSION_BUSY: (a) => `The conversation is in use by another ${a.agent}, such as one in a terminal. Close it there, then send again.`,
  NOT_STEERABLE: (a) => `${a.agent} takes no message while it works. Put it in the queue, or interrupt.`,
  CANCELLED: () => 'This was stopped before it had an answer.',
  UNKNOWN_AGENT: (a) => `There is no agent of this name on ${a.executor}. Choose another.`,
  UNKNOWN_MODEL: (a) => `${a.agent} does not offer this model. Choose another.`,
  PROJECT_PATH_INVALID: (a, e) => `The project directory cannot be used on ${a.executor}: ${end(e.message)}`,
  NATIVE_SESSION_NOT_FOUND: (a) => `${a.agent} no longer has this conversation. The next message starts a new one; the transcript stays.`,
  NO_NATIVE_HISTORY: (a) => `${a.agent} keeps no history that garcon could read.`,
  FORK_NOT_NATIVE: (a) => `${a.agent} cannot continue from this place by itself.`,
  AGENT_NOT_INSTALLED: (a) => `${a.agent} is not installed on ${a.executor}. Agents shows how to install it.`,
  AGENT_VERSION_UNSUPPORTED: (a, e) => `This version of ${a.agent} is not supported: ${end(e.message)}`,
  AGENT_NOT_SIGNED_IN: (a) => `${a.agent} is not signed in on ${a.executor}. Sign in there, then send again.`,
  ENDPOINT_UNREACHABLE: (_, e) => `The provider cannot be reached: ${end(e.message)} Your message is in the transcript.`,
  CREDENTIALS_REFUSED: (_, e) => `The provider refused the key: ${end(e.message)} Set another in Agents.`,
  RATE_LIMITED: (_, e) => `The provider limits this account. Send again ${after(e)}.`,
  QUOTA_EXHAUSTED: (_, e) => `The account has no quota left: ${end(e.message)}`,
  MODEL_OVERLOADED: () => 'The model is overloaded at the provider. Send again in a while, or choose another model.',
  CONTEXT_OVERFLOW: () => 'The conversation no longer fits the model. Compact it, or start a new chat.',
  MODEL_ERROR: (_, e) => `The model reported an error: ${end(e.message)}`,
  ANSWER_TRUNCATED: () => 'The answer reached the longest the model may write and was cut off. Ask it to go on.',
  CONTENT_REFUSED: () => 'The provider refused this content. Say it in another way.',
  AGENT_CRASHED: (a, e) => `${a.agent} ended by itself: ${end(e.message)} What it wrote is kept.`,
  AGENT_KILLED: (a) => `${a.agent} was ended from outside, such as by the system when memory is short. What it wrote is kept.`,
  AGENT_PROTOCOL: (a) => `${a.agent} said something garcon does not understand. What it wrote is kept. Another version of it may work.`,
  AGENT_TIMEOUT: (a) => `${a.agent} did not answer in time. What it wrote is kept.`,

  // This page.
  CONNECTION_LOST: (_, e) =>
    e.details?.['dispatched'] === 'no' ? 'garcon cannot be reached. Nothing was sent.' : 'The connection broke before garcon answered. It may have been done; look before you repeat it.',
  OFFLINE: () => 'This device has no network. Nothing was sent.',
  NOT_CONNECTED: () => 'The page is not connected to garcon. Nothing was sent.',
  PROTOCOL: () => 'The server sent something this page does not understand. Reload the page; a proxy in between may be at fault.',
  TIMEOUT: (_, e) => (e.details?.['dispatched'] === 'no' ? 'garcon did not answer in time. Nothing was changed.' : 'garcon did not answer in time. It may have been done; look before you repeat it.'),
  ABORTED: () => 'This was given up.',
};

/** The codes that have a sentence. */
export const codes: readonly string[] = Object.keys(sentences);

/** Explains a failure. A code without a sentence says what the server said. */
export function explain(error: ErrorDocument, about: About = {}): Sentence {
  const named = {
    executor: about.executor || 'This machine',
    agent: about.agent || 'The agent',
    since: about.since ?? '',
  };
  const write = sentences[error.code];
  return { text: write ? write(named, error) : end(error.message), code: error.code };
}

/** Ends a text as a sentence; an empty one stays empty. */
function end(text: string): string {
  const trimmed = text.trim();
  if (trimmed === '') return '';
  return /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** When something may be tried again. */
function after(error: ErrorDocument): string {
  const ms = error.details?.['retryAfterMs'];
  if (typeof ms !== 'number' || ms <= 0) return 'in a while';
  return `in ${duration(ms)}`;
}

/** How long, in words: "8 s", "4 min", "2 h". */
export function duration(ms: number): string {
  const s = Math.ceil(ms / 1000);
  if (s < 60) return `${s} s`;
  const m = Math.ceil(s / 60);
  if (m < 60) return `${m} min`;
  return `${Math.ceil(m / 60)} h`;
}

/** How long ago, short: "now", "2m", "3h", "1d". */
export function ago(time: number, now: number): string {
  const minutes = Math.floor((now - time) / 60_000);
  if (minutes < 1) return 'now';
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 60) return `${days}d`;
  return `${Math.floor(days / 30)}mo`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const dated = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit' });

/** The time of day. */
export const timeOfDay = (time: number): string => clock.format(time);
/** Day and time. */
export const dayAndTime = (time: number): string => dated.format(time);

/** "1 chat", "3 chats". */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString()} ${n === 1 ? one : many}`;
}
