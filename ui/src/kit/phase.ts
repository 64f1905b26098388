import type { Chat, Control, Executor } from '../wire/types';

/** What a chat's mark says. */
export type Standing = 'idle' | 'running' | 'waiting' | 'queued' | 'paused' | 'failed' | 'away' | 'unread';

/** The most important thing about a chat. Control is the newer word, where there is one. */
export function standing(chat: Chat, control: Control | undefined, availability: Executor['availability'] | undefined): Standing {
  const phase = control?.phase ?? chat.state.phase;
  const pending = control ? control.pending.length : (chat.state.pending ?? 0);
  const queued = control ? control.queue.entries.length : (chat.state.queued ?? 0);
  const paused = control ? control.queue.paused : (chat.state.queuePaused ?? false);
  if (chat.state.unavailable) return 'failed';
  if (phase === 'reconnecting' || (phase !== 'idle' && availability !== undefined && availability !== 'ready')) return 'away';
  if (pending > 0) return 'waiting';
  if (phase !== 'idle') return 'running';
  if (queued > 0) return paused ? 'paused' : 'queued';
  return chat.unread ? 'unread' : 'idle';
}
