import { describe, expect, it } from 'vitest';
import type { Row, ToolName } from '../wire/types';
import { byKey, fold, withLive, type Facts, type Item, type ToolItem } from './fold';
import { applyLive, endParts } from './parts';

const IDLE: Facts = { activeRun: null, end: true, open: new Set() };
const RUNNING: Facts = { ...IDLE, activeRun: 'r' };

type Loose = { kind: string } & Record<string, unknown>;

function rows(...list: Loose[]): Row[] {
  return list.map((r, i) => ({ ordinal: i, time: i * 1000, runId: 'r', turnId: 't', ...r })) as unknown as Row[];
}

const start = { kind: 'run', phase: 'started' };
const done = { kind: 'run', phase: 'completed' };

function tool(callId: string, name: ToolName = 'bash', more: object = {}): Loose {
  return { kind: 'tool', callId, tool: name, title: callId, status: 'running', input: {}, ...more };
}

function result(callId: string, more: object = {}): Loose {
  return { kind: 'tool-result', callId, ...more };
}

function permission(occurrence: string, callId?: string): Loose {
  return { kind: 'permission', occurrence, callId, tool: 'bash', input: { command: 'x' }, options: [] };
}

function kinds(items: readonly Item[]): string[] {
  return items.map((i) => i.kind);
}

describe('tool lines', () => {
  it('hold the result, the permission and the subagent of their call', () => {
    const items = fold(
      rows(start, tool('a'), permission('o', 'a'), { kind: 'permission-resolved', occurrence: 'o', decision: 'allow-once', outcome: 'answered', by: 'you' },
        { kind: 'subagent', childId: 'k', callId: 'a', mode: 'foreground', status: 'running' },
        { kind: 'subagent', childId: 'k', callId: 'a', mode: 'foreground', status: 'completed' }, result('a', { exitCode: 0 }), done),
      IDLE,
    );
    expect(kinds(items)).toEqual(['tool', 'run']);
    const line = items[0] as ToolItem;
    expect([line.status, line.ask!.state, line.child!.status, line.result!.exitCode]).toEqual(['completed', 'answered', 'completed', 0]);
  });

  it.each([
    ['running', [start, tool('a')], RUNNING],
    ['running', [start, tool('a')], { ...IDLE, activeRun: undefined }],
    ['cancelled', [start, tool('a'), done], IDLE],
    ['cancelled', [start, tool('a')], IDLE],
    ['failed', [tool('a'), result('a', { isError: true })], IDLE],
    ['cancelled', [tool('a'), result('a', { isError: true, status: 'cancelled' })], IDLE],
    ['denied', [start, tool('a'), permission('o', 'a'), { kind: 'permission-resolved', occurrence: 'o', decision: 'deny', outcome: 'answered' }], RUNNING],
  ] as [string, Loose[], Facts][])('are %s', (status, list, facts) => {
    expect((fold(rows(...list), facts)[0] as ToolItem).status).toBe(status);
  });

  it('stand for a result whose call is outside the window', () => {
    const [item] = fold(rows(result('gone', { output: 'x' })), IDLE);
    expect([item!.kind, (item as ToolItem).row, (item as ToolItem).result!.output]).toEqual(['tool', undefined, 'x']);
  });

  it('fold three reads that went well into one', () => {
    const read = (id: string) => [tool(id, 'read'), result(id)];
    expect(kinds(fold(rows(...read('a'), ...read('b')), IDLE))).toEqual(['tool', 'tool']);
    expect(kinds(fold(rows(...read('a'), ...read('b'), tool('c', 'grep'), result('c')), IDLE))).toEqual(['reads']);
    expect(kinds(fold(rows(...read('a'), ...read('b'), tool('c', 'read'), result('c', { isError: true })), IDLE))).toEqual(['tool', 'tool', 'tool']);
    expect(kinds(fold(rows(...read('a'), ...read('b'), tool('c'), result('c'), ...read('d')), IDLE))).toEqual(['tool', 'tool', 'tool', 'tool']);
  });
});

describe('requests to the user', () => {
  const list = (...end: Loose[]) => rows(start, permission('o'), ...end);
  it.each([
    ['answered', list({ kind: 'permission-resolved', occurrence: 'o', decision: 'deny', outcome: 'answered' }), RUNNING],
    ['withdrawn', list({ kind: 'permission-resolved', occurrence: 'o', outcome: 'withdrawn' }), RUNNING],
    ['withdrawn', list({ kind: 'permission-resolved', occurrence: 'o', outcome: 'ended' }, done), IDLE],
    ['open', list(), RUNNING],
    ['unknown', list(done), IDLE],
    ['expired', list(), IDLE],
  ] as [string, Row[], Facts][])('are %s', (state, all, facts) => {
    const item = fold(all, facts).find((i) => i.kind === 'ask');
    expect(item?.kind === 'ask' && item.ask.state).toBe(state);
  });

  it('are drawn once: the card stands for the row while it is open', () => {
    const facts = { ...RUNNING, open: new Set(['o']) };
    expect(kinds(fold(list(), facts))).toEqual([]);
    const [line] = fold(rows(start, tool('a'), permission('o', 'a')), facts) as ToolItem[];
    expect(line!.ask).toBeUndefined();
  });

  it('with the same text are two cards', () => {
    const pending = ['o1', 'o2'].map((occurrence) => ({
      occurrence, runId: 'r', controlId: occurrence, kind: 'permission' as const, since: 1, row: rows(permission(occurrence))[0] as never,
    }));
    const items = withLive([], new Map(), pending, 5);
    expect(items.map((i) => i.key)).toEqual(['c:o1', 'c:o2']);
  });
});

describe('runs', () => {
  it('without an end that are not going on are lost, after their last row', () => {
    const items = fold(rows(start, { kind: 'assistant', text: 'a' }, { kind: 'user', text: 'next', runId: 'q' }), IDLE);
    expect(kinds(items)).toEqual(['text', 'lost', 'user']);
  });
  it('are not called lost while nobody knows', () => {
    expect(kinds(fold(rows(start), { ...IDLE, activeRun: undefined }))).toEqual([]);
    expect(kinds(fold(rows(start), RUNNING))).toEqual([]);
    expect(kinds(fold(rows(start), { ...IDLE, end: false }))).toEqual([]);
  });
  it('are lost in the middle of a transcript when another began', () => {
    const items = fold(rows(start, { ...start, runId: 'q' }), { ...IDLE, end: false, activeRun: 'q' });
    expect(kinds(items)).toEqual(['lost']);
  });
  it('have a footer that knows their start', () => {
    const [item] = fold(rows({ ...start, model: 'm' }, done), IDLE);
    expect(item!.kind === 'run' && item!.start!.model).toBe('m');
  });
});

describe('every kind', () => {
  it('is drawn, but for sessions', () => {
    const items = fold(
      rows({ kind: 'session' }, { kind: 'compaction', trigger: 'auto' }, { kind: 'handoff' }, { kind: 'notice' }, { kind: 'error' },
        { kind: 'opaque', type: 'hologram', members: {} }, { kind: 'subagent', childId: 'k', status: 'running' }, { kind: 'subagent', childId: 'k', status: 'completed' },
        { kind: 'question', occurrence: 'q', questions: [] }, { kind: 'reasoning', text: 'hm' }, { kind: 'assistant', text: 'x', partial: true }),
      { ...IDLE, activeRun: undefined },
    );
    expect(kinds(items)).toEqual(['mark', 'mark', 'mark', 'mark', 'mark', 'subagent', 'ask', 'text', 'text']);
  });
  it('of another transcript is not', () => {
    const all = rows({ kind: 'assistant', text: 'mine' }, { kind: 'assistant', text: 'of the child', child: 'k' });
    expect(fold(all, IDLE)).toHaveLength(1);
    expect(fold(all, { ...IDLE, child: 'k' }).map((i) => i.kind === 'text' && i.text)).toEqual(['of the child']);
  });
});

describe('streaming', () => {
  it('swaps a part and its row in one step, under one key', () => {
    let parts = applyLive(new Map(), [{ runId: 'r', partId: 'p', kind: 'assistant', offset: 0, text: 'hel' }]);
    const before = withLive([], parts, [], 1);
    const all = rows(start, { kind: 'assistant', text: 'hello', partId: 'p' });
    parts = endParts(parts, all, []);
    const after = withLive(fold(all, RUNNING), parts, [], 2);
    expect(before.map((i) => i.key)).toEqual(after.map((i) => i.key));
    expect(after).toHaveLength(1);
  });

  it('never draws a part beside its row, whichever came first', () => {
    const all = rows(start, { kind: 'assistant', text: 'hello', partId: 'p' });
    const parts = applyLive(new Map(), [{ runId: 'r', partId: 'p', kind: 'assistant', offset: 0, text: 'hel' }]);
    expect(withLive(fold(all, RUNNING), parts, [], 2)).toHaveLength(1);
  });

  it('puts output on the line of its call', () => {
    const all = rows(start, tool('a'), tool('b'));
    const parts = applyLive(new Map(), [{ runId: 'r', partId: 'p', kind: 'tool-result', title: 'a', offset: 0, text: 'out' }]);
    const items = withLive(fold(all, RUNNING), parts, [], 3) as ToolItem[];
    expect(items.map((i) => i.live?.text)).toEqual(['out', undefined]);
  });

  it('keeps items that did not change', () => {
    const all = rows(start, tool('a'), permission('o', 'a'), result('a'), { kind: 'assistant', text: 'x' }, tool('1', 'read'), result('1'), tool('2', 'read'), result('2'), tool('3', 'read'), result('3'));
    const first = fold(all, IDLE);
    const more = [...all, ...rows({ kind: 'user', text: 'y' }).map((r) => ({ ...r, ordinal: 99 }))];
    const second = fold(more, IDLE, byKey(first));
    first.filter((i) => i.kind !== 'lost').forEach((item, i) => expect(second[i]).toBe(item));
  });

  it('has unique keys even if a part id comes twice', () => {
    const all = rows({ kind: 'assistant', text: 'a', partId: 'p' }, { kind: 'assistant', text: 'b', partId: 'p' });
    expect(new Set(fold(all, IDLE).map((i) => i.key)).size).toBe(2);
  });
});
