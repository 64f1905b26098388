import { count } from '../words/words';
import type { Chat, Control, Pending } from '../wire/types';

/** What an open request wants, in a line: "Wants to run go test ./…". */
export function wants(pending: Pick<Pending, 'row'>): string {
  const { row } = pending;
  if (row.kind === 'question') return `Asks: ${row.questions[0]?.header || row.questions[0]?.text || 'a question'}`;
  const { input } = row;
  switch (row.tool) {
    case 'bash':
      return `Wants to run ${oneLine(input.command ?? row.title ?? 'a command')}`;
    case 'read':
      return `Wants to read ${input.path ?? 'a file'}`;
    case 'write':
      return `Wants to write ${input.path ?? 'a file'}`;
    case 'edit':
      return `Wants to edit ${input.path ?? 'a file'}`;
    case 'patch':
      return input.paths?.length ? `Wants to edit ${count(input.paths.length, 'file')}` : 'Wants to edit files';
    case 'web-fetch':
      return `Wants to fetch ${input.url ?? 'a page'}`;
    case 'plan':
      return 'Has a plan';
    default:
      return `Wants to use ${row.title || row.name || row.tool}`;
  }
}

/** The second line of a chat: the most useful fact about it. */
export function fact(chat: Chat, control: Control | undefined, executor: string | undefined): string {
  const parts = [executor];
  const first = control?.pending[0];
  if (chat.state.unavailable) parts.push(chat.state.unavailable);
  else if (first) parts.push(first.answering ? 'Answering' : wants(first));
  else if ((control?.phase ?? chat.state.phase) === 'reconnecting') parts.push('executor away, run kept');
  else if ((control?.phase ?? chat.state.phase) !== 'idle') parts.push(working(chat, control));
  else if (control?.queue.paused && control.queue.entries.length > 0) parts.push(`Queue paused: ${count(control.queue.entries.length, 'message')}`);
  else parts.push(oneLine(chat.preview ?? '') || `${chat.agent}${chat.model ? ` · ${chat.model}` : ''}`);
  return parts.filter(Boolean).join(' · ');
}

function working(chat: Chat, control: Control | undefined): string {
  const jobs = control?.jobs ?? [];
  const queued = control?.queue.entries.length ?? chat.state.queued ?? 0;
  const doing = (control?.phase ?? chat.state.phase) === 'running' ? oneLine(chat.preview ?? '') || 'working' : 'starting';
  const more = [jobs.length > 0 && count(jobs.length, 'job'), queued > 0 && `${queued} queued`].filter(Boolean);
  return [chat.agent, doing, ...more].join(' · ');
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
