import { describe, expect, it } from 'vitest';
import { busy, choose, matching, policy, slash, verbOf, verbs } from './composing';
import { refusal } from './upload.svelte';

describe('verbs', () => {
  it.each([
    [false, true, ['send']],
    [true, true, ['queue', 'steer', 'interrupt']],
    [true, false, ['queue', 'interrupt']],
  ])('busy %s, steerable %s', (isBusy, steerable, want) => {
    expect(verbs(isBusy, steerable)).toEqual(want);
  });
  it.each([
    ['send', false, true, 'send'],
    ['send-other', false, true, 'send'],
    ['interrupt', false, true, 'send'],
    ['send', true, true, 'queue'],
    ['send-other', true, true, 'steer'],
    ['send-other', true, false, 'queue'],
    ['interrupt', true, false, 'interrupt'],
  ] as const)('%s when busy %s, steerable %s', (command, isBusy, steerable, want) => {
    expect(verbOf(command, verbs(isBusy, steerable))).toBe(want);
  });
  it('send with a policy that never drops a message', () => {
    expect((['send', 'queue', 'steer', 'interrupt'] as const).map(policy)).toEqual(['queue', 'queue', 'steer', 'interrupt']);
  });
  it('know what is busy', () => {
    const queue = { entries: [], paused: false };
    expect([undefined, { phase: 'idle' as const, queue }, { phase: 'waiting' as const, queue }].map(busy)).toEqual([false, false, true]);
  });
});

describe('commands', () => {
  it.each([
    ['/', 1, ''],
    ['/com', 4, 'com'],
    ['/com x', 4, 'com'],
    ['/com x', 6, undefined],
    ['x /com', 6, undefined],
    ['', 0, undefined],
  ])('typed in %j at %i', (text, cursor, want) => {
    expect(slash(text, cursor)).toBe(want);
  });
  it('match by name first', () => {
    const list = [{ name: 'review', description: 'looks at a commit' }, { name: 'Commit' }, { name: 'recommit' }];
    expect(matching(list, 'commit').map((c) => c.name)).toEqual(['Commit', 'review', 'recommit']);
    expect(matching(list, '')).toHaveLength(3);
  });
  it('keep what was typed after them', () => {
    expect(choose('/co the rest', 3, 'compact')).toEqual({ text: '/compact the rest', cursor: 9 });
    expect(choose('/co', 3, 'compact')).toEqual({ text: '/compact ', cursor: 9 });
  });
});

describe('files', () => {
  const rules = { mediaTypes: ['image/', 'text/plain'], maxCount: 2, maxBytes: 1000 };
  const file = (type: string, size = 10) => ({ name: 'f', type, size });
  it.each([
    [file('image/png'), 0, undefined],
    [file('text/plain', 1000), 1, undefined],
    [file('text/html'), 0, /text\/html; this agent takes image\/\*, text\/plain/],
    [file(''), 0, /unknown kind/],
    [file('image/png', 1001), 0, /at most 1000 B/],
    [file('image/png'), 2, /at most 2 files/],
  ])('%#', (f, have, want) => {
    const got = refusal(f, rules, have);
    if (want === undefined) expect(got).toBeUndefined();
    else expect(got).toMatch(want);
  });
  it('are refused by an agent that takes none', () => {
    expect(refusal(file('image/png'), {}, 0)).toMatch(/no files/);
    expect(refusal(file('image/png'), undefined, 0)).toMatch(/no files/);
  });
});
