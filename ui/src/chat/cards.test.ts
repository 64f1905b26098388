import { describe, expect, it } from 'vitest';
import type { Pending } from '../wire/types';
import { answered, Guard, GUARD_MS, NO_CARDS, NOT_DELIVERED, offered, stateOf, type Cards } from './cards';

function pending(occurrence: string, more: Partial<Pending> = {}): Pending {
  return {
    occurrence, runId: 'r', controlId: `${occurrence}.1`, kind: 'permission', since: 1,
    row: { kind: 'permission', ordinal: 1, time: 1, occurrence, tool: 'bash', input: { command: 'make' }, options: [] },
    ...more,
  };
}

function states(c: Cards): string[] {
  return c.pending.map((p) => stateOf(c, p).kind);
}

describe('requests', () => {
  it('with equal text are two cards, answered apart', () => {
    let c = offered(NO_CARDS, [pending('a'), pending('b')], false);
    c = answered(c, 'a', { state: 'sending', controlId: 'a.1' });
    expect(states(c)).toEqual(['answering', 'open']);
    c = offered(c, [pending('b')], false);
    expect(c.pending.map((p) => p.occurrence)).toEqual(['b']);
    expect(states(c)).toEqual(['open']);
  });
  it('come in the order they were asked', () => {
    const c = offered(NO_CARDS, [pending('late', { since: 9 }), pending('early', { since: 2 })], false);
    expect(c.pending.map((p) => p.occurrence)).toEqual(['early', 'late']);
  });
  it('that another device answers say so', () => {
    const c = offered(NO_CARDS, [pending('a', { answering: true })], false);
    expect(stateOf(c, c.pending[0]!)).toEqual({ kind: 'answering', mine: false });
  });
});

describe('answers', () => {
  const begun = answered(offered(NO_CARDS, [pending('a')], false), 'a', { state: 'sending', controlId: 'a.1' });

  it('stay on their way until the state of the chat drops the request', () => {
    const delivered = answered(begun, 'a', { state: 'delivered', controlId: 'a.1' });
    const c = offered(delivered, [pending('a', { answering: true })], false);
    expect(stateOf(c, c.pending[0]!)).toEqual({ kind: 'answering', mine: true });
    // An older state that comes late must not open it again.
    expect(states(offered(c, [pending('a')], false))).toEqual(['answering']);
    expect(offered(c, [], false).pending).toEqual([]);
  });
  it('that were not delivered open the request again, and say so', () => {
    const c = offered(begun, [pending('a', { controlId: 'a.2' })], false);
    expect(stateOf(c, c.pending[0]!)).toEqual({ kind: 'open', note: NOT_DELIVERED });
  });
  it('that were lost with the link open it again when it is still asked', () => {
    const lost = answered(begun, 'a', { state: 'lost', controlId: 'a.1' });
    expect(states(lost)).toEqual(['answering']);
    const taken = offered(lost, [pending('a', { answering: true })], true);
    expect(states(taken)).toEqual(['answering']);
    // A state from before says nothing.
    expect(states(offered(lost, [pending('a')], false))).toEqual(['answering']);
    const c = offered(lost, [pending('a')], true);
    expect(stateOf(c, c.pending[0]!)).toEqual({ kind: 'open', note: NOT_DELIVERED });
  });
  it('whose outcome is unknown retire the request', () => {
    expect(states(answered(begun, 'a', { state: 'unknown', controlId: 'a.1' }))).toEqual(['unknown']);
  });
  it('that were refused open it again with the reason', () => {
    const c = answered(begun, 'a', { state: 'refused', controlId: 'a.1', message: 'no' });
    expect(stateOf(c, c.pending[0]!)).toEqual({ kind: 'open', note: 'no' });
  });
  it('that end after the request was offered again change nothing', () => {
    const again = offered(begun, [pending('a', { controlId: 'a.2' })], false);
    expect(answered(again, 'a', { state: 'delivered', controlId: 'a.1' })).toBe(again);
    expect(answered(again, 'gone', { state: 'delivered', controlId: 'a.1' })).toBe(again);
  });
});

describe('the guard', () => {
  it('counts from the appearance', () => {
    const g = new Guard(1000);
    g.seen(50, 1000);
    expect([g.armed(1000 + GUARD_MS - 1), g.armed(1000 + GUARD_MS)]).toEqual([false, true]);
  });
  it('counts again from every move, and not from a tremble', () => {
    const g = new Guard(0);
    g.seen(50, 0);
    g.seen(52, 1000);
    expect(g.armed(1000)).toBe(true);
    g.seen(90, 1001);
    expect([g.armed(1001), g.armed(1000 + GUARD_MS), g.armed(1001 + GUARD_MS)]).toEqual([false, false, true]);
  });
  it('sees a slow drift', () => {
    const g = new Guard(0);
    for (let i = 0; i < 10; i++) g.seen(50 + i, 1000 + i);
    expect(g.armed(1010)).toBe(false);
  });
  it('counts from a new offer', () => {
    const g = new Guard(0);
    g.restart(500);
    expect(g.armed(600)).toBe(false);
  });
});
