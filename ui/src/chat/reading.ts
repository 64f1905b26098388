// What of an item is for the rail and for the clipboard.

import { stripAnsi } from '../ansi/sgr';
import type { Item } from './fold';
import { summary } from './tools';

/** Whether the rail has a tick for an item: messages of the user and failures. */
export function markable(item: Item): boolean {
  return item.kind === 'user' || (item.kind === 'run' && item.row.phase === 'failed');
}

/** The text of an item, for copying. */
export function textOf(item: Item): string {
  switch (item.kind) {
    case 'user': return item.row.text;
    case 'text': return item.text;
    case 'outbox': return item.message.prompt;
    case 'tool': {
      const s = summary(item);
      return `${s.verb} ${item.row?.input.command ?? s.subject}${item.result?.output ? `\n${stripAnsi(item.result.output)}` : ''}`;
    }
    case 'reads': return item.tools.map(textOf).join('\n');
    case 'ask': return item.ask.row.kind === 'question' ? item.ask.row.questions.map((q) => q.text).join('\n') : (item.ask.row.input.command ?? item.ask.row.title ?? '');
    case 'run': case 'lost': return item.row.detail ?? item.row.phase;
    case 'subagent': return item.row.summary ?? item.row.title ?? '';
    case 'mark': return 'text' in item.row ? (item.row.text ?? '') : 'summary' in item.row ? (item.row.summary ?? '') : JSON.stringify(item.row);
    case 'card': return item.pending.row.kind === 'permission' ? (item.pending.row.input.command ?? '') : item.pending.row.questions.map((q) => q.text).join('\n');
  }
}
