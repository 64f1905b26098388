// Words for states of rows.

import type { Ask } from './fold';
import type { Mark } from './scrutiny';
import type { RunRow } from '../wire/types';

const DECIDED: Record<string, string> = {
  'allow-once': 'allowed once',
  'allow-session': 'allowed for the session',
  deny: 'denied',
  'deny-stop': 'denied, run stopped',
};

/** How a request to the user ended. */
export function askWords(ask: Ask): string {
  const r = ask.resolved;
  switch (ask.state) {
    case 'answered':
      if (r?.kind === 'question-resolved') return r.declined ? 'declined' : 'answered';
      return DECIDED[r?.decision ?? ''] ?? 'answered';
    case 'withdrawn':
      return r?.outcome === 'ended' ? 'withdrawn, the run ended' : 'withdrawn by the agent';
    case 'expired':
      return 'expired, garcon was restarted';
    case 'unknown':
      return 'unknown whether the answer arrived';
    case 'open':
      return 'waiting for an answer';
  }
}

/** What a mark of a request says. */
export const MARK_WORDS: Record<Mark, string> = {
  sudo: 'runs as another user',
  'pipe-to-shell': 'runs what it downloads or makes',
  'outside-project': 'names a path outside the project',
  unseen: 'holds characters that are not seen',
  background: 'goes on after the run',
};

/** How a run ended. */
export function runWords(row: RunRow): string {
  switch (row.phase) {
    case 'completed': return 'Done';
    case 'interrupted': return 'Stopped';
    case 'failed': return 'Failed';
    case 'started': return 'Started';
  }
}
