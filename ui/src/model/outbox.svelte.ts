import type { Api } from '../wire/api';
import { asApiError, type ApiError } from '../wire/errors';
import type { Accepted, AttachmentRef, BusyPolicy, ErrorDocument } from '../wire/types';
import type { LargeStore } from './storage';

/**
 * Where a message stands that the server has not confirmed:
 *   unsent     kept until there is a connection; no request was made
 *   sending    a request is going
 *   unanswered a request was made and its answer was lost; it is repeated with
 *              the same request id on the same server instance, which is safe
 *   refused    the server said no; the person decides
 *   uncertain  the server was restarted since: it may have been sent
 */
export type SendState = 'unsent' | 'sending' | 'unanswered' | 'refused' | 'uncertain';

/** A message on its way. */
export interface Message {
  readonly requestId: string;
  readonly chatId: string;
  readonly prompt: string;
  readonly attachments: readonly (AttachmentRef & { size: number })[];
  readonly busy: BusyPolicy;
  readonly createdAt: number;
  readonly state: SendState;
  /** The server instance a request was made to. */
  readonly instance?: string;
  readonly error?: ErrorDocument;
}

export type NewMessage = Pick<Message, 'chatId' | 'prompt' | 'attachments' | 'busy'>;

export interface OutboxOptions {
  api: Pick<Api, 'submit' | 'page'>;
  store: LargeStore<Message>;
  /** The instance of the connected server, undefined while there is none. */
  instance(): string | undefined;
  newId?(): string;
}

/** How many messages of a transcript are looked through for one that may have been sent. */
const CHECK_MESSAGES = 200;

/** The messages that the server has not confirmed, on the disk before they are sent. */
export class Outbox {
  readonly #options: OutboxOptions;
  messages = $state.raw<readonly Message[]>([]);
  readonly loaded: Promise<void>;

  constructor(options: OutboxOptions) {
    this.#options = options;
    this.loaded = options.store.all().then((stored) => {
      const known = new Set(this.messages.map((m) => m.requestId));
      // The page ended while a request was going: its answer is lost.
      const kept = [...stored.values()].filter((m) => !known.has(m.requestId)).map((m): Message => (m.state === 'sending' ? { ...m, state: 'unanswered' } : m));
      this.messages = [...kept, ...this.messages].sort((a, b) => a.createdAt - b.createdAt);
    });
  }

  of(chatId: string): readonly Message[] {
    return this.messages.filter((m) => m.chatId === chatId);
  }

  /**
   * Sends a message, or keeps it until there is a connection. It resolves to
   * what the server accepted, or undefined when the message stays in the outbox.
   */
  async send(fresh: NewMessage): Promise<Accepted | undefined> {
    const message: Message = {
      ...fresh,
      requestId: (this.#options.newId ?? newRequestId)(),
      createdAt: Date.now(),
      state: 'unsent',
    };
    this.messages = [...this.messages, message];
    await this.#options.store.set(message.requestId, $state.snapshot(message) as Message);
    // Messages of one chat keep their order.
    const first = this.of(message.chatId).find((m) => m.state !== 'refused' && m.state !== 'uncertain');
    if (first && first.requestId !== message.requestId) return undefined;
    return this.#post(message.requestId);
  }

  /** The connection has a generation: sends what waited, in order for each chat. */
  async connected(): Promise<void> {
    await this.loaded;
    const instance = this.#options.instance();
    for (const m of this.messages) {
      if (m.state === 'unanswered' && m.instance !== instance) this.#set(m.requestId, { state: 'uncertain' });
    }
    const chats = new Set(this.messages.map((m) => m.chatId));
    await Promise.all([...chats].map((chatId) => this.#drain(chatId)));
  }

  /** Sends a refused or uncertain message again because the person says so. */
  async again(requestId: string): Promise<Accepted | undefined> {
    this.#set(requestId, { state: 'unsent' });
    return this.#post(requestId);
  }

  /** Gives a message up; it returns what it was, for the composer. */
  discard(requestId: string): Message | undefined {
    const message = this.#find(requestId);
    if (!message || message.state === 'sending') return undefined;
    this.#drop(requestId);
    return message;
  }

  /** Looks in the transcript whether the message arrived. */
  async check(requestId: string): Promise<'arrived' | 'not-found'> {
    const message = this.#find(requestId);
    if (!message) return 'arrived';
    const page = await this.#options.api.page(message.chatId, { max: CHECK_MESSAGES });
    if (!page.rows.some((r) => r.kind === 'user' && r.clientId === requestId)) return 'not-found';
    this.#drop(requestId);
    return 'arrived';
  }

  /** A row or queue entry of the transcript shows that the message arrived. */
  arrived(requestId: string): void {
    const message = this.#find(requestId);
    if (message && message.state !== 'sending') this.#drop(requestId);
  }

  async #drain(chatId: string): Promise<void> {
    for (;;) {
      const next = this.of(chatId).find((m) => m.state === 'unsent' || m.state === 'unanswered');
      if (!next || this.of(chatId).some((m) => m.state === 'sending')) return;
      await this.#post(next.requestId);
      const after = this.#find(next.requestId);
      if (after && after.state !== 'refused' && after.state !== 'uncertain') return; // no connection again
    }
  }

  async #post(requestId: string): Promise<Accepted | undefined> {
    const message = this.#find(requestId);
    const instance = this.#options.instance();
    if (!message || instance === undefined) return undefined;
    this.#set(requestId, { state: 'sending', instance });
    try {
      const accepted = await this.#options.api.submit(message.chatId, {
        requestId,
        prompt: message.prompt,
        busy: message.busy,
        ...(message.attachments.length > 0 && { attachments: message.attachments.map(({ name, mediaType, digest }) => ({ name, mediaType, digest })) }),
      });
      this.#drop(requestId);
      queueMicrotask(() => void this.#drain(message.chatId));
      return accepted;
    } catch (thrown) {
      const error = asApiError(thrown);
      this.#set(requestId, outcome(error, message));
      return undefined;
    }
  }

  #find(requestId: string): Message | undefined {
    return this.messages.find((m) => m.requestId === requestId);
  }

  #set(requestId: string, change: Partial<Message>): void {
    this.messages = this.messages.map((m) => {
      if (m.requestId !== requestId) return m;
      const { error: _, ...rest } = m;
      const next = { ...rest, ...change };
      void this.#options.store.set(requestId, next);
      return next;
    });
  }

  #drop(requestId: string): void {
    this.messages = this.messages.filter((m) => m.requestId !== requestId);
    void this.#options.store.remove(requestId);
  }
}

/** What a failed request makes of its message. */
function outcome(error: ApiError, before: Message): Partial<Message> {
  const document: ErrorDocument = { code: error.code, message: error.message, ...(error.hint && { hint: error.hint }), details: { ...error.details } };
  // The instance changed between the connection and the request: the server did nothing.
  if (error.code === 'CLI_CONTROLLER_CHANGED' || error.code === 'NOT_CONNECTED' || error.code === 'UNAUTHORIZED') {
    return before.state === 'unanswered' ? { state: 'unanswered', ...(before.instance && { instance: before.instance }) } : { state: 'unsent' };
  }
  if (error.status === 0) return { state: error.dispatched === 'no' ? 'unsent' : 'unanswered' };
  if (error.dispatched === 'unknown') return { state: 'uncertain', error: document };
  return { state: 'refused', error: document };
}

/** A fresh request id. */
export function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `ui-${[...bytes].map((b) => b.toString(16).padStart(2, '0')).join('')}`;
}
