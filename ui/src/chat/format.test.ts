import { describe, expect, it } from 'vitest';
import type { ToolName, ToolResultRow, ToolRow } from '../wire/types';
import type { ToolItem } from './fold';
import { bytes, count, duration, tokens } from './format';
import { changes, extraTitle, progress, summary, verb } from './tools';

describe('numbers', () => {
  it.each([
    [duration(0), '0.0 s'], [duration(120), '0.1 s'], [duration(9949), '9.9 s'], [duration(9950), '10 s'], [duration(59_400), '59 s'],
    [duration(60_000), '1 min'], [duration(184_000), '3 min 4 s'], [duration(7_500_000), '2 h 5 min'], [duration(3_600_000), '1 h'],
    [bytes(1023), '1023 B'], [bytes(1024), '1.0 KiB'], [bytes(204_800), '200 KiB'], [bytes(3 << 20), '3.0 MiB'],
    [tokens(999), '999'], [tokens(12_400), '12.4k'], [tokens(182_000), '182k'], [tokens(1_200_000), '1.2M'],
    [count(1, 'file'), '1 file'], [count(2, 'file'), '2 files'],
  ])('%s', (got, want) => {
    expect(got).toBe(want);
  });
});

function item(tool: ToolName, input: ToolRow['input'], result?: Partial<ToolResultRow>, title?: string): ToolItem {
  const head = { ordinal: 0, time: 0 };
  return {
    kind: 'tool', key: 'k', ordinal: 0, time: 0, status: 'completed', ask: undefined, child: undefined, live: undefined,
    row: { ...head, kind: 'tool', callId: 'c', tool, input, ...(title && { title }) },
    result: result && { ...head, kind: 'tool-result', callId: 'c', ...result },
  };
}

describe('tool lines', () => {
  it.each<[ToolItem, string]>([
    [item('bash', { command: 'make\ntest' }, { exitCode: 2 }), '$ make ⏎ test exit 2'],
    [item('bash', { command: 'make' }, { exitCode: 0 }), '$ make'],
    [item('bash', { command: 'a\x1b]0;x\x07b' }), '$ ab'],
    [item('bash', { command: 'rm \u202egnp' }), '$ rm ‹U+202E›gnp'],
    [item('task', { description: 'a 👩\u200d👧' }), 'Delegate a 👩\u200d👧'],
    [item('read', { path: 'a.go', offset: 10, limit: 5 }), 'Read a.go:10–14'],
    [item('grep', { pattern: 'x+', path: '.', glob: '*.go' }, { output: 'a\nb\n' }), 'Grep x+  in *.go 2 hits'],
    [item('list', {}, { output: 'one\n' }), 'List . 1 entry'],
    [item('mcp', { server: 'tickets', method: 'list' }), 'tickets list'],
    [item('other', {}, undefined, 'juggle'), 'Tool juggle'],
    [item('plan', { plan: '\n1. Think\n2. Act' }), 'Plan 1. Think'],
  ])('%#', (it, want) => {
    const s = summary(it);
    expect([s.verb, s.subject, s.fact].filter(Boolean).join(' ')).toBe(want);
  });

  it('count what an edit changes, from the result or from what was asked', () => {
    const edits = [{ old: 'a\nb', new: 'a\nc\nd' }];
    expect(summary(item('edit', { path: 'x', edits })).stat).toEqual({ added: 2, removed: 1 });
    expect(summary(item('edit', { path: 'x', edits }, { diff: '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n' })).stat).toEqual({ added: 1, removed: 1 });
    expect(summary(item('write', { path: 'x', content: 'a\nb\n' })).stat).toEqual({ added: 2, removed: 0 });
    expect(changes(item('edit', { path: 'x', edits }))[0]!.hunks[0]!.lines[0]).not.toHaveProperty('old');
  });

  it('read the changes of a row once', () => {
    const one = item('write', { path: 'x', content: 'a' });
    expect(changes(one)).toBe(changes({ ...one }));
  });

  it('count todos', () => {
    expect(progress([{ text: 'a', status: 'completed' }, { text: 'b', status: 'pending' }])).toBe('1 of 2 done');
  });
});

it.each([
  [verb('bash', {}), 'Run a command?'],
  [verb('patch', { paths: ['a', 'b'] }), 'Edit 2 files?'],
  [verb('web-fetch', { url: 'https://example.com/x' }), 'Fetch from example.com?'],
  [verb('web-fetch', { url: 'nonsense' }), 'Fetch from the web?'],
])('asks %s', (got, want) => {
  expect(got).toBe(want);
});

it.each([
  ['make test', { command: 'make test' }, undefined],
  ['make te…', { command: 'make test' }, undefined],
  ['x.go', { path: 'x.go' }, undefined],
  ['Delete the branch', { command: 'git branch -D x' }, 'Delete the branch'],
  ['', {}, undefined],
])('the title %j is extra or not', (title, input, want) => {
  expect(extraTitle(title, input)).toBe(want);
});
