// What the line of a tool call says.

import type { Todo, ToolInput, ToolName, ToolResultRow } from '../wire/types';
import type { IconName } from '../kit/icons';
import { stripAnsi } from '../ansi/sgr';
import { compare, parseDiff, splitLines, stat, type FileDiff, type Stat } from './diff';
import type { ToolItem } from './fold';
import { count } from './format';
import { pieces } from './scrutiny';

export interface Summary {
  readonly icon: IconName;
  readonly verb: string;
  /** What it is about; drawn in monospace when code is set. */
  readonly subject: string;
  readonly code: boolean;
  /** A short fact after it. */
  readonly fact?: string | undefined;
  readonly stat?: Stat | undefined;
}

/** How many characters of a subject a line can show; the rest is only cost. */
const MAX_SUBJECT = 300;

/** Says in one line what a call does. */
export function summary(item: ToolItem): Summary {
  const { row, result } = item;
  if (!row) {
    if (item.live) return { icon: 'tool', verb: item.live.title ?? 'Tool', subject: named(line(item.live.text)), code: true };
    return { icon: 'tool', verb: 'Result', subject: 'of a call above', code: false };
  }
  const s = describe(row.tool, row.input, row.title ?? row.name ?? '');
  // In code a character that is not seen matters; in prose it may be part of an emoji.
  const subject = s.code ? named(line(s.subject)) : line(s.subject);
  return { ...s, subject, ...facts(item, result) };
}

function describe(tool: ToolName, input: ToolInput, title: string): Omit<Summary, 'fact' | 'stat'> {
  const path = input.path ?? '';
  switch (tool) {
    case 'bash': return { icon: 'terminal', verb: '$', subject: input.command ?? title, code: true };
    case 'read': return { icon: 'file', verb: 'Read', subject: path + range(input), code: true };
    case 'write': return { icon: 'edit', verb: 'Write', subject: path, code: true };
    case 'edit': return { icon: 'edit', verb: 'Edit', subject: path, code: true };
    case 'patch': return { icon: 'edit', verb: 'Patch', subject: (input.paths ?? []).join(', ') || title, code: true };
    case 'glob': return { icon: 'search', verb: 'Find', subject: join(input.pattern, path), code: true };
    case 'grep': return { icon: 'search', verb: 'Grep', subject: join(input.pattern, input.glob ?? path), code: true };
    case 'list': return { icon: 'folder', verb: 'List', subject: path || '.', code: true };
    case 'web-search': return { icon: 'globe', verb: 'Search the web', subject: input.query ?? title, code: false };
    case 'web-fetch': return { icon: 'globe', verb: 'Fetch', subject: input.url ?? title, code: true };
    case 'todo': return { icon: 'todo', verb: 'Todo', subject: progress(input.todos ?? []), code: false };
    case 'task': return { icon: 'branch', verb: 'Delegate', subject: input.description ?? title, code: false };
    case 'question': return { icon: 'question', verb: 'Ask', subject: input.questions?.[0]?.text ?? title, code: false };
    case 'plan': return { icon: 'todo', verb: 'Plan', subject: firstLine(input.plan ?? title), code: false };
    case 'mcp': return { icon: 'tool', verb: input.server ?? 'MCP', subject: input.method ?? title, code: true };
    default: return { icon: 'tool', verb: 'Tool', subject: title || tool, code: false };
  }
}

function facts(item: ToolItem, result: ToolResultRow | undefined): Pick<Summary, 'fact' | 'stat'> {
  const tool = item.row!.tool;
  if (tool === 'write' || tool === 'edit' || tool === 'patch') return { stat: stat(changes(item)) };
  if (!result) return {};
  if (tool === 'bash') return { fact: result.exitCode ? `exit ${result.exitCode}` : undefined };
  if ((tool === 'grep' || tool === 'glob' || tool === 'list') && !result.isError) {
    return { fact: count(splitLines(result.output ?? '').length, tool === 'grep' ? 'hit' : 'entry', tool === 'grep' ? 'hits' : 'entries') };
  }
  return {};
}

const cache = new WeakMap<object, FileDiff[]>();

/** What a call changes, or would change, by file. Empty when that cannot be told. */
export function changes(item: ToolItem): FileDiff[] {
  if (item.result?.diff) {
    const diff = item.result.diff;
    return cached(item.result, () => parseDiff(diff));
  }
  return item.row ? cached(item.row, () => proposed(item.row!.input)) : [];
}

/** What an input would change: as far as it tells, without the file. */
export function proposed(input: ToolInput): FileDiff[] {
  const path = input.path ?? input.paths?.[0] ?? '';
  if (input.patch) return parseDiff(input.patch);
  if (input.edits?.length) {
    const hunks = input.edits.flatMap((e) => compare(path, e.old, e.new, Infinity).hunks.map((h) => ({ section: e.all ? 'every occurrence' : '', lines: bare(h.lines) })));
    return [{ path, hunks }];
  }
  if (input.content !== undefined) return [{ ...compare(path, '', input.content), note: 'the whole new content' }];
  return [];
}

/** Without line numbers: where in the file an edit applies is not known. */
function bare(lines: FileDiff['hunks'][number]['lines']): FileDiff['hunks'][number]['lines'] {
  return lines.map(({ kind, text, marks }) => (marks ? { kind, text, marks } : { kind, text }));
}

function cached(key: object, make: () => FileDiff[]): FileDiff[] {
  let diffs = cache.get(key);
  if (!diffs) cache.set(key, (diffs = make()));
  return diffs;
}

/** "2 of 5 done". */
export function progress(todos: readonly Todo[]): string {
  const done = todos.filter((t) => t.status === 'completed').length;
  return `${done} of ${todos.length} done`;
}

/** The title of a request, unless it only says again what the request shows whole. */
export function extraTitle(title: string | undefined, input: ToolInput): string | undefined {
  if (!title) return undefined;
  const begin = title.replace(/(?:…|\.\.\.)$/, '').trim();
  const shown = [input.command, input.path, input.url, input.query, input.pattern, input.description];
  return shown.some((s) => s?.trim().startsWith(begin)) ? undefined : title;
}

/** What a permission request asks, as a question. */
export function verb(tool: ToolName, input: ToolInput): string {
  switch (tool) {
    case 'bash': return input.background ? 'Run a command in the background?' : 'Run a command?';
    case 'write': return 'Write a file?';
    case 'edit': return 'Edit a file?';
    case 'patch': {
      const n = input.paths?.length ?? proposed(input).length;
      return n > 1 ? `Edit ${n} files?` : 'Edit a file?';
    }
    case 'read': return 'Read a file?';
    case 'glob': case 'grep': case 'list': return 'Look through files?';
    case 'web-search': return 'Search the web?';
    case 'web-fetch': return `Fetch from ${host(input.url)}?`;
    case 'plan': return 'Go on with this plan?';
    case 'task': return 'Start a helper?';
    case 'mcp': return `Use ${input.server ?? 'a tool server'}?`;
    default: return 'Use a tool?';
  }
}

function host(url: string | undefined): string {
  try {
    return new URL(url ?? '').host || 'the web';
  } catch {
    return 'the web';
  }
}

function range(input: ToolInput): string {
  if (!input.offset && !input.limit) return '';
  const from = input.offset ?? 1;
  return input.limit ? `:${from}–${from + input.limit - 1}` : `:${from}`;
}

function join(a: string | undefined, b: string): string {
  return b && b !== '.' ? `${a ?? ''}  in ${b}` : (a ?? '');
}

function line(text: string): string {
  const one = stripAnsi(text.slice(0, MAX_SUBJECT)).replace(/\s*\n\s*/g, ' ⏎ ');
  return text.length > MAX_SUBJECT ? `${one}…` : one;
}

function named(text: string): string {
  return pieces(text).map((p) => (p.mark ? `‹${p.text}›` : p.text)).join('');
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0] ?? '';
}
