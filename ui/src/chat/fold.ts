// From rows to what is drawn. A tool call, its result, the permission it
// needed and the subagent it began are one line; runs of reads are one too.

import type {
  CompactionRow, ErrorRow, HandoffRow, NoticeRow, OpaqueRow, Pending, PermissionResolvedRow, PermissionRow,
  QuestionResolvedRow, QuestionRow, Row, RunRow, SubagentRow, ToolName, ToolResultRow, ToolRow, ToolStatus, UserRow,
} from '../wire/types';
import type { Message } from '../model/outbox.svelte';
import { partKey, type Part, type Parts } from './parts';

/** How a request to the user ended, as far as the rows tell. */
export type AskState =
  | 'answered'
  | 'withdrawn'
  /** The run went on or ended and nobody knows whether the answer arrived. */
  | 'unknown'
  /** Garcon ended while it was open. */
  | 'expired'
  /** Still being asked; the card shows it. */
  | 'open';

export interface Ask {
  readonly row: PermissionRow | QuestionRow;
  readonly resolved?: PermissionResolvedRow | QuestionResolvedRow;
  readonly state: AskState;
}

interface Base {
  /** Unique in the list and kept when a live part becomes a row. */
  readonly key: string;
  /** The ordinal of the row, for links and aria-posinset. */
  readonly ordinal: number;
  readonly time: number;
}

export type TextItem = Base & {
  readonly kind: 'text';
  readonly role: 'assistant' | 'reasoning';
  readonly text: string;
  readonly live: boolean;
  readonly partial: boolean;
  readonly final: boolean;
  /** How long the thought took, when it can be told. */
  readonly tookMs: number | undefined;
  /** Set when only the head of a large row is here. */
  readonly cut: Row | undefined;
};

export type ToolItem = Base & {
  readonly kind: 'tool';
  /** Absent while the input streams, and when the call is outside the window. */
  readonly row: ToolRow | undefined;
  readonly result: ToolResultRow | undefined;
  readonly ask: Ask | undefined;
  readonly child: SubagentRow | undefined;
  readonly status: ToolStatus;
  /** What streams: the input before the row, the output after it. */
  readonly live: Part | undefined;
};

export type ReadsItem = Base & { readonly kind: 'reads'; readonly tools: readonly ToolItem[] };
export type UserItem = Base & { readonly kind: 'user'; readonly row: UserRow };
export type AskItem = Base & { readonly kind: 'ask'; readonly ask: Ask };
export type RunItem = Base & { readonly kind: 'run'; readonly row: RunRow; readonly start: RunRow | undefined };
export type LostItem = Base & { readonly kind: 'lost'; readonly row: RunRow };
export type SubagentItem = Base & { readonly kind: 'subagent'; readonly row: SubagentRow };
export type MarkItem = Base & {
  readonly kind: 'mark';
  readonly row: CompactionRow | HandoffRow | NoticeRow | ErrorRow | OpaqueRow;
};
/** A message that the server has not confirmed. */
export type OutboxItem = Base & { readonly kind: 'outbox'; readonly message: Message };
export type CardItem = Base & { readonly kind: 'card'; readonly pending: Pending };

export type Item =
  | TextItem | ToolItem | ReadsItem | UserItem | AskItem | RunItem | LostItem | SubagentItem | MarkItem | OutboxItem | CardItem;

/** What the fold has to know beside the rows. */
export interface Facts {
  /** The subagent whose transcript it is, undefined for the chat's own. */
  readonly child?: string | undefined;
  /** The run that is going, null for none, undefined while that is not known. */
  readonly activeRun: string | null | undefined;
  /** Whether the last row is the newest there is. */
  readonly end: boolean;
  /** The occurrences that are open. */
  readonly open: ReadonlySet<string>;
}

/** How many reads in a row become one line. */
const MIN_READS = 3;
const READS: ReadonlySet<ToolName> = new Set<ToolName>(['read', 'glob', 'grep', 'list']);

/** Folds rows. Items that did not change are the ones of the previous call. */
export function fold(rows: readonly Row[], facts: Facts, previous: ReadonlyMap<string, Item> = new Map()): Item[] {
  const f = new Folder(rows, facts);
  const items = groupReads(f.items());
  return items.map((item) => reuse(item, previous.get(item.key)));
}

/** The items by key, for the next call of [fold]. */
export function byKey(items: readonly Item[]): Map<string, Item> {
  return new Map(items.map((i) => [i.key, i]));
}

class Folder {
  private readonly results = new Map<string, ToolResultRow>();
  private readonly calls = new Set<string>();
  private readonly resolved = new Map<string, PermissionResolvedRow | QuestionResolvedRow>();
  private readonly asks = new Map<string, PermissionRow | QuestionRow>();
  private readonly childOfCall = new Map<string, SubagentRow>();
  private readonly children = new Map<string, SubagentRow>();
  private readonly starts = new Map<string, RunRow>();
  private readonly ended = new Set<string>();
  private readonly lastOfRun = new Map<string, number>();
  private lastStart = -1;
  private readonly keys = new Set<string>();

  constructor(private readonly rows: readonly Row[], private readonly facts: Facts) {
    for (const r of rows) this.learn(r);
  }

  private learn(r: Row): void {
    if (r.runId !== undefined && r.kind !== 'session') this.lastOfRun.set(r.runId, r.ordinal);
    switch (r.kind) {
      case 'tool': this.calls.add(r.callId); break;
      case 'tool-result': this.results.set(r.callId, r); break;
      case 'permission': case 'question':
        if (r.callId !== undefined) this.asks.set(r.callId, r);
        break;
      case 'permission-resolved': case 'question-resolved': this.resolved.set(r.occurrence, r); break;
      case 'subagent':
        this.children.set(r.childId, r);
        if (r.callId !== undefined) this.childOfCall.set(r.callId, r);
        break;
      case 'run':
        if (r.runId === undefined) break;
        if (r.phase === 'started') {
          this.starts.set(r.runId, r);
          this.lastStart = r.ordinal;
        } else this.ended.add(r.runId);
        break;
    }
  }

  items(): Item[] {
    const out: Item[] = [];
    const shownChildren = new Set<string>();
    let before: Row | undefined;
    for (const r of this.rows) {
      if ((r.child ?? '') !== (this.facts.child ?? '')) continue;
      const item = this.item(r, before, shownChildren);
      if (item) out.push(item);
      before = r;
      if (r.runId !== undefined && this.lastOfRun.get(r.runId) === r.ordinal) {
        const start = this.starts.get(r.runId);
        if (start && this.lost(start)) out.push({ kind: 'lost', ...this.base(start, `lost:${r.runId}`), row: start });
      }
    }
    return out;
  }

  private item(r: Row, before: Row | undefined, shownChildren: Set<string>): Item | undefined {
    switch (r.kind) {
      case 'user': return { kind: 'user', ...this.base(r), row: r };
      case 'assistant': return this.text(r, r.text, !!r.partial, !!r.final, undefined);
      case 'reasoning': {
        const took = before && before.runId === r.runId && before.kind !== 'user' ? r.time - before.time : undefined;
        return this.text(r, r.text, !!r.partial, false, took);
      }
      case 'tool': return this.tool(r);
      case 'tool-result':
        return this.calls.has(r.callId) ? undefined : this.toolItem(r, undefined, r);
      case 'permission': case 'question':
        if (r.callId !== undefined && this.calls.has(r.callId)) return undefined;
        return this.facts.open.has(r.occurrence) ? undefined : { kind: 'ask', ...this.base(r), ask: this.ask(r) };
      case 'run': {
        if (r.phase === 'started') return undefined;
        return { kind: 'run', ...this.base(r), row: r, start: r.runId === undefined ? undefined : this.starts.get(r.runId) };
      }
      case 'subagent': {
        if (r.callId !== undefined && this.calls.has(r.callId)) return undefined;
        if (shownChildren.has(r.childId)) return undefined;
        shownChildren.add(r.childId);
        return { kind: 'subagent', ...this.base(r), row: this.children.get(r.childId)! };
      }
      case 'compaction': case 'handoff': case 'notice': case 'error': case 'opaque':
        return { kind: 'mark', ...this.base(r), row: r };
      case 'permission-resolved': case 'question-resolved': case 'session':
        return undefined;
    }
  }

  private text(r: Row, text: string, partial: boolean, final: boolean, tookMs: number | undefined): TextItem {
    const role = r.kind === 'assistant' ? 'assistant' : 'reasoning';
    return { kind: 'text', ...this.base(r), role, text, live: false, partial, final, tookMs, cut: r.fullBytes ? r : undefined };
  }

  private tool(r: ToolRow): ToolItem {
    return this.toolItem(r, r, this.results.get(r.callId));
  }

  private toolItem(r: ToolRow | ToolResultRow, row: ToolRow | undefined, result: ToolResultRow | undefined): ToolItem {
    const asked = this.asks.get(r.callId);
    const child = this.childOfCall.get(r.callId);
    const ask = asked && !this.facts.open.has(asked.occurrence) ? this.ask(asked) : undefined;
    return { kind: 'tool', ...this.base(r), row, result, ask, child, status: this.status(r, row, result, ask), live: undefined };
  }

  private status(r: Row, row: ToolRow | undefined, result: ToolResultRow | undefined, ask: Ask | undefined): ToolStatus {
    const refused = ask?.resolved?.kind === 'permission-resolved' && ask.resolved.decision?.startsWith('deny');
    if (result) {
      if (refused) return 'denied';
      return result.status ?? (result.isError ? 'failed' : 'completed');
    }
    if (row?.status !== undefined && row.status !== 'running') return row.status;
    if (refused) return 'denied';
    return this.over(r) ? 'cancelled' : 'running';
  }

  /** Whether the run of a row is certainly not going on. */
  private over(r: Row): boolean {
    if (r.runId === undefined) return false;
    if (this.ended.has(r.runId)) return true;
    if (this.facts.activeRun === undefined || this.facts.activeRun === r.runId) return false;
    return this.facts.end;
  }

  /** Whether a run ended without a row that says so. */
  private lost(start: RunRow): boolean {
    const run = start.runId;
    if (run === undefined || this.ended.has(run)) return false;
    if (this.facts.activeRun === undefined || this.facts.activeRun === run) return false;
    // Its last row may be below the window.
    return this.facts.end || this.lastStart > start.ordinal;
  }

  private ask(row: PermissionRow | QuestionRow): Ask {
    const resolved = this.resolved.get(row.occurrence);
    if (resolved) return { row, resolved, state: resolved.outcome === 'answered' ? 'answered' : 'withdrawn' };
    if (this.facts.open.has(row.occurrence)) return { row, state: 'open' };
    if (row.runId !== undefined && this.ended.has(row.runId)) return { row, state: 'unknown' };
    const start = row.runId === undefined ? undefined : this.starts.get(row.runId);
    if (start && this.lost(start)) return { row, state: 'expired' };
    // The row and the card come by different streams; neither is first.
    return { row, state: this.facts.activeRun === row.runId || this.facts.activeRun === undefined ? 'open' : 'unknown' };
  }

  private base(r: Row, name?: string): Base {
    let key = name ?? (r.partId !== undefined ? `p:${partKey(r.runId, r.partId)}` : `o:${r.ordinal}`);
    if (this.keys.has(key)) key = `o:${r.ordinal}:${r.kind}`;
    this.keys.add(key);
    return { key, ordinal: r.ordinal, time: r.time };
  }
}

/** Makes one line of three or more reads that went well and needed nobody. */
function groupReads(items: readonly Item[]): Item[] {
  const out: Item[] = [];
  let run: ToolItem[] = [];
  const flush = () => {
    if (run.length >= MIN_READS) {
      const first = run[0]!;
      out.push({ kind: 'reads', key: `g:${first.key}`, ordinal: first.ordinal, time: first.time, tools: run });
    } else out.push(...run);
    run = [];
  };
  for (const item of items) {
    if (item.kind === 'tool' && item.row && READS.has(item.row.tool) && item.status === 'completed' && !item.ask) run.push(item);
    else {
      flush();
      out.push(item);
    }
  }
  flush();
  return out;
}

/**
 * Adds what is not in the ledger: parts that stream, cards, and messages on
 * their way. The output of a command that runs belongs to its line.
 */
export function withLive(items: readonly Item[], parts: Parts, cards: readonly Pending[], next: number, outbox: readonly Message[] = []): Item[] {
  const out = [...items];
  const taken = new Set(items.map((i) => i.key));
  for (const [partId, part] of parts) {
    const key = `p:${partId}`;
    if (taken.has(key)) continue;
    const base = { key, ordinal: next, time: 0 };
    if (part.kind === 'assistant' || part.kind === 'reasoning') {
      out.push({ kind: 'text', ...base, role: part.kind, text: part.text, live: true, partial: false, final: false, tookMs: undefined, cut: undefined });
    } else if (part.kind === 'tool-result') {
      const at = callOf(out, part);
      if (at >= 0) out[at] = { ...(out[at] as ToolItem), live: part };
    } else {
      out.push({ kind: 'tool', ...base, row: undefined, result: undefined, ask: undefined, child: undefined, status: 'running', live: part });
    }
  }
  for (const pending of cards) {
    out.push({ kind: 'card', key: `c:${pending.occurrence}`, ordinal: next, time: pending.since, pending });
  }
  for (const message of outbox) {
    out.push({ kind: 'outbox', key: `m:${message.requestId}`, ordinal: next, time: message.createdAt, message });
  }
  return out;
}

/** The index of the call whose output streams: a running one of the run, by title if that tells. */
function callOf(items: readonly Item[], part: Part): number {
  let found = -1;
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i]!;
    if (item.kind === 'user') break;
    if (item.kind !== 'tool' || !item.row || item.status !== 'running' || item.row.runId !== part.runId || item.live) continue;
    if (part.title !== undefined && item.row.title === part.title) return i;
    if (found < 0) found = i;
  }
  return found;
}

function reuse(item: Item, before: Item | undefined): Item {
  return before !== undefined && equal(item, before) ? before : item;
}

/** Whether two items show the same: members compared by identity, two levels of plain objects and lists by their members. */
function equal(a: unknown, b: unknown, depth = 3): boolean {
  if (Object.is(a, b)) return true;
  if (depth === 0 || typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => equal((a as Record<string, unknown>)[k], (b as Record<string, unknown>)[k], depth - 1));
}
