import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Api } from '../wire/api';
import type { Carrier, StreamReader } from '../wire/carrier';
import { ApiError, localError } from '../wire/errors';
import type { Generation, Link } from '../wire/link';
import type { Control, Pending, Row } from '../wire/types';
import { NOT_DELIVERED } from './cards';
import { ChatSession } from './session.svelte';
import { MAX_ROWS } from './window';

/** A link whose other side is the test. */
class Wire implements Link {
  generation: Generation | undefined;
  reader: StreamReader | undefined;
  #listeners = new Set<() => void>();
  #number = 0;

  connect(): void {
    const carrier: Carrier = {
      heardAt: 0,
      open: (_name, _args, reader) => {
        this.reader = reader;
        return { cancel: () => (this.reader = undefined) };
      },
      onClose: () => {},
      close: () => {},
    };
    this.generation = { number: ++this.#number, carrier, clientId: 'c', serverInstanceId: 's' };
    for (const f of this.#listeners) f();
  }

  disconnect(): void {
    this.generation = undefined;
    this.reader = undefined;
    for (const f of this.#listeners) f();
  }

  readonly renew = vi.fn(() => this.disconnect());

  subscribe(f: () => void): () => void {
    this.#listeners.add(f);
    return () => this.#listeners.delete(f);
  }

  send(item: object): void {
    this.reader!.item(item);
  }
}

function rows(from: number, to: number): Row[] {
  return Array.from({ length: to - from }, (_, i) => ({ kind: 'user', ordinal: from + i, time: 1, text: `${from + i}` }));
}

function snapshot(from: number, to: number, more: object = {}): object {
  return { type: 'snapshot', view: 'v', cursor: to - 1, rows: rows(from, to), hasMore: from > 0, live: [], ...more };
}

function pending(occurrence: string, more: Partial<Pending> = {}): Pending {
  const row = { kind: 'permission', ordinal: 1, time: 1, occurrence, tool: 'bash', input: { command: 'make' }, options: [{ id: 'y', decision: 'allow-once', label: 'Allow' }] } as Pending['row'];
  return { occurrence, runId: 'r', controlId: `${occurrence}.1`, kind: 'permission', since: 1, row, ...more };
}

function control(...requests: Pending[]): Control {
  return { chatId: 'c', revision: 1, phase: 'waiting', runId: 'r', queue: { entries: [], paused: false }, pending: requests, jobs: [] };
}

let wire: Wire;
let session: ChatSession;
const api = { page: vi.fn(), body: vi.fn(), decide: vi.fn(), answer: vi.fn() };
/** Lets everything that arrived reach the screen. */
const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(50);
const keys = (): string[] => session.items.map((i) => i.key);

beforeEach(() => {
  vi.useFakeTimers();
  for (const f of Object.values(api)) f.mockReset();
  wire = new Wire();
  session = new ChatSession({ link: wire, api: api as unknown as Api }, 'c', undefined);
  wire.connect();
});

afterEach(async () => {
  await session.dispose();
  vi.useRealTimers();
});

describe('what arrives', () => {
  it('is drawn at most thirty times a second', async () => {
    wire.send(snapshot(0, 1));
    await settle();
    const seen = new Set<unknown>();
    for (let i = 0; i < 100; i++) {
      wire.send({ type: 'live', cursor: 0, live: [{ runId: 'r', partId: 'p', kind: 'assistant', offset: i, text: 'x' }] });
      await vi.advanceTimersByTimeAsync(1);
      seen.add(session.items);
    }
    expect(seen.size).toBeLessThanOrEqual(5);
    await settle();
    expect(session.items.at(-1)).toMatchObject({ kind: 'text', text: 'x'.repeat(100), live: true });
  });

  it('swaps a part with its row in one step', async () => {
    wire.send(snapshot(0, 1, { live: [{ runId: 'r', partId: 'p', kind: 'assistant', offset: 0, text: 'hel' }] }));
    await settle();
    const before = keys();
    wire.send({ type: 'rows', cursor: 1, rows: [{ kind: 'assistant', ordinal: 1, time: 1, text: 'hello', runId: 'r', partId: 'p' }], live: [] });
    await settle();
    expect(keys()).toEqual(before);
    expect(session.items.at(-1)).toMatchObject({ text: 'hello', live: false });
  });

  it('goes on after a reconnect, without parts that are gone', async () => {
    wire.send(snapshot(0, 2, { live: [{ runId: 'r', partId: 'p', kind: 'assistant', offset: 0, text: 'hel' }] }));
    await settle();
    wire.disconnect();
    expect(session.fresh).toBe(false);
    expect(session.items).toHaveLength(3);
    wire.connect();
    wire.send(snapshot(1, 4));
    await settle();
    expect(session.fresh).toBe(true);
    expect(keys()).toEqual(['o:0', 'o:1', 'o:2', 'o:3']);
  });

  it('counts what came below a reader who is elsewhere', async () => {
    wire.send(snapshot(0, 2));
    await settle();
    session.follow.leave();
    session.setFollowing();
    wire.send({ type: 'rows', cursor: 4, rows: rows(2, 5), live: [] });
    await settle();
    expect(session.below).toBe(3);
    await session.toEnd();
    expect([session.below, session.following]).toEqual([0, true]);
  });
});

describe('paging', () => {
  it('prepends an older page with a shift, once', async () => {
    wire.send(snapshot(10, 12));
    await settle();
    api.page.mockResolvedValue({ chatId: 'c', view: 'v', through: 11, rows: rows(0, 10), hasMore: false });
    const loading = [session.loadOlder(), session.loadOlder()];
    expect(session.loadingOlder).toBe(true);
    await Promise.all(loading);
    expect(api.page).toHaveBeenCalledTimes(1);
    expect(api.page.mock.calls[0]![1]).toMatchObject({ through: 11, before: 10 });
    expect([session.items.length, session.older]).toEqual([12, false]);
    await session.loadOlder();
    expect(api.page).toHaveBeenCalledTimes(1);
  });

  it('shows the failure of a page and keeps the rows', async () => {
    wire.send(snapshot(10, 12));
    await settle();
    api.page.mockRejectedValue(new ApiError({ code: 'STORAGE_FAILED', message: 'no' }, 500));
    await session.loadOlder();
    expect([session.pageFailure?.code, session.items.length, session.loadingOlder]).toEqual(['STORAGE_FAILED', 2, false]);
  });

  it('leaves the end and comes back to it', async () => {
    wire.send(snapshot(0, MAX_ROWS));
    await settle();
    session.follow.leave();
    wire.send({ type: 'rows', cursor: MAX_ROWS, rows: rows(MAX_ROWS, MAX_ROWS + 1), live: [] });
    await settle();
    expect([session.end, session.items.length]).toEqual([false, MAX_ROWS]);
    // A card would stand in the middle of the transcript.
    session.setControl(control(pending('a')), true);
    expect(session.items.some((i) => i.kind === 'card')).toBe(false);
    api.page.mockResolvedValue({ chatId: 'c', view: 'v', through: MAX_ROWS, rows: rows(MAX_ROWS - 50, MAX_ROWS + 1), hasMore: true });
    await session.toEnd();
    expect([session.end, session.items.at(-1)!.kind]).toEqual([true, 'card']);
  });
});

describe('answers', () => {
  const state = (): string => session.cardState(session.cards.pending[0]!).kind;

  beforeEach(async () => {
    wire.send(snapshot(0, 1));
    session.setControl(control(pending('a')), true);
    await settle();
  });

  it('name the offer they saw, and are given once', async () => {
    api.decide.mockResolvedValue({ occurrence: 'a', outcome: 'delivered' });
    const p = session.cards.pending[0]!;
    await Promise.all([session.decide(p, 'y'), session.decide(p, 'y')]);
    expect(api.decide.mock.calls).toEqual([['c', 'a', { runId: 'r', controlId: 'a.1', optionId: 'y' }]]);
    expect(state()).toBe('answering');
  });

  it.each([
    ['refused', new ApiError({ code: 'ALREADY_RESOLVED', message: 'Too late.' }, 409), 'open'],
    ['lost with the link', localError('CONNECTION_LOST', 'x', 'unknown'), 'answering'],
    ['of unknown outcome', new ApiError({ code: 'OUTCOME_UNKNOWN', message: 'x', details: { dispatched: 'unknown' } }, 503), 'unknown'],
  ])('that are %s', async (_name, error, want) => {
    api.decide.mockRejectedValue(error);
    await session.decide(session.cards.pending[0]!, 'y');
    expect(state()).toBe(want);
  });

  it('that were lost can be given again when the request is still open on the next connection', async () => {
    api.decide.mockRejectedValue(localError('CONNECTION_LOST', 'x', 'unknown'));
    await session.decide(session.cards.pending[0]!, 'y');
    expect(wire.renew).toHaveBeenCalledTimes(1);
    // What was known before the loss tells nothing about the answer.
    session.setControl(control(pending('a')), false);
    expect(state()).toBe('answering');
    wire.connect();
    session.setControl(control(pending('a')), false);
    expect(state()).toBe('answering');
    session.setControl(control(pending('a')), true);
    expect(session.cardState(session.cards.pending[0]!)).toEqual({ kind: 'open', note: NOT_DELIVERED });
  });

  it('that were lost on a connection that was replaced meanwhile are told by what is known of the new one', async () => {
    let fail = (_: unknown): void => {};
    api.decide.mockReturnValue(new Promise((_, reject) => (fail = reject)));
    const answer = session.decide(session.cards.pending[0]!, 'y');
    wire.disconnect();
    wire.connect();
    session.setControl(control(pending('a')), true);
    fail(localError('CONNECTION_LOST', 'x', 'unknown'));
    await answer;
    expect(wire.renew).not.toHaveBeenCalled();
    expect(state()).toBe('open');
  });

  it('of unknown outcome at the server retire the card', async () => {
    api.decide.mockResolvedValue({ occurrence: 'a', outcome: 'unknown' });
    await session.decide(session.cards.pending[0]!, 'y');
    expect(state()).toBe('unknown');
  });

  it('are not drawn in the transcript of a subagent', async () => {
    const child = new ChatSession({ link: wire, api: api as unknown as Api }, 'c', 'k');
    child.setControl(control(pending('a')), true);
    expect(child.cards.pending).toEqual([]);
    await child.dispose();
  });
});
