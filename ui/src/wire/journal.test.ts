import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ApiError, localError } from './errors';
import { JournalStream, type JournalItem, type JournalPage, type PageRequest } from './journal';
import { ScriptedLink, settle } from './testing/scripted';

interface Entry {
  ordinal: number;
}
interface Item extends JournalItem<Entry> {
  readonly live?: string;
}

const rows = (from: number, to: number): Entry[] => Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => ({ ordinal: from + i }));
const ordinals = (item: { rows?: readonly Entry[] }): number[] => (item.rows ?? []).map((e) => e.ordinal);

/** A journal of the server with pages of ten entries. */
function setup(pageSize = 10) {
  const link = new ScriptedLink();
  const published: { item: Item; joined: boolean }[] = [];
  const asked: PageRequest[] = [];
  const fresh: boolean[] = [];
  const server = { view: 'v', last: -1 };
  let answer: (request: PageRequest, signal: AbortSignal) => Promise<JournalPage<Entry>> = (request) => {
    const end = request.before === undefined ? request.through : Math.min(request.before - 1, request.through);
    const start = Math.max(0, end - pageSize + 1);
    return Promise.resolve({ view: server.view, rows: rows(start, end), hasMore: start > 0 });
  };
  const stream = new JournalStream<Item, Entry, JournalPage<Entry>>({
    link, name: 'chat.follow',
    decode: (value) => value as Item,
    page: (request, signal) => {
      asked.push(request);
      return answer(request, signal);
    },
    publish: (item, joined) => void published.push({ item, joined }),
    onFresh: (f) => void fresh.push(f),
  });
  const snapshot = (from: number, to: number, view = 'v'): Item => ({ type: 'snapshot', view, cursor: to, rows: rows(from, to), hasMore: from > 0 });
  return { link, stream, published, asked, fresh, server, snapshot, answer: (f: typeof answer) => (answer = f), usual: answer };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('JournalStream', () => {
  test('the snapshot of the follow is the first window; nothing is paged', () => {
    const { link, published, asked, snapshot } = setup();
    link.connect().item('chat.follow', snapshot(5, 9));
    expect([ordinals(published[0]!.item), published[0]!.joined, asked]).toEqual([[5, 6, 7, 8, 9], false, []]);
  });

  test('an empty journal has the cursor -1 and grows from 0', () => {
    const { link, stream, published, snapshot } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(0, -1));
    expect(stream.cursor).toBe(-1);
    c.item('chat.follow', { type: 'rows', cursor: 0, rows: rows(0, 0) });
    expect([published.map((p) => ordinals(p.item)), stream.cursor]).toEqual([[[], [0]], 0]);
  });

  test('contiguous entries append', () => {
    const { link, stream, published, asked, snapshot } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(5, 9));
    c.item('chat.follow', { type: 'rows', cursor: 11, rows: rows(10, 11) });
    expect([published.length, ordinals(published[1]!.item), stream.cursor, asked]).toEqual([2, [10, 11], 11, []]);
  });

  test('items without entries pass in their place', () => {
    const { link, published, snapshot } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(0, 0));
    c.item('chat.follow', { type: 'live', cursor: 0, live: 'a' });
    expect(published[1]!.item).toMatchObject({ type: 'live', live: 'a' });
  });

  test('entries before the snapshot are a protocol error', () => {
    const { link, stream } = setup();
    link.connect().item('chat.follow', { type: 'rows', cursor: 1, rows: rows(0, 1) });
    expect(stream.status.phase).toBe('failed');
  });

  test('a gap is repaired by page and published once, without a hole', async () => {
    const { link, published, asked, snapshot, server } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(0, 3));
    server.last = 9;
    c.item('chat.follow', { type: 'rows', cursor: 9, rows: rows(8, 9) });
    expect(published).toHaveLength(1);
    await settle();
    expect(published).toHaveLength(2);
    expect([published[1]!.item.type, ordinals(published[1]!.item)]).toEqual(['rows', [4, 5, 6, 7, 8, 9]]);
    expect(asked).toEqual([{ through: 9, before: 8 }]);
  });

  test('what comes during a repair waits for it', async () => {
    const { link, published, snapshot, answer, usual } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(0, 3));
    let release = (): void => {};
    answer(async (request, signal) => {
      await new Promise<void>((r) => (release = r));
      return usual(request, signal);
    });
    c.item('chat.follow', { type: 'rows', cursor: 6, rows: rows(6, 6) });
    c.item('chat.follow', { type: 'rows', cursor: 7, rows: rows(7, 7) });
    await settle();
    expect(published).toHaveLength(1);
    release();
    await settle();
    expect(published.slice(1).map((p) => ordinals(p.item))).toEqual([[4, 5, 6], [7]]);
  });

  test('entries that came before are not published again', async () => {
    const { link, published, snapshot } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(0, 5));
    c.item('chat.follow', { type: 'rows', cursor: 6, rows: rows(4, 6) });
    await settle();
    expect(published.slice(1).flatMap((p) => ordinals(p.item))).toEqual([6]);
  });

  test('a reconnect that overlaps is published as joined, at once', () => {
    const { link, published, asked, snapshot } = setup();
    link.connect().item('chat.follow', snapshot(5, 9));
    link.generation!.carrier.close('cut');
    link.connect().item('chat.follow', snapshot(8, 14));
    expect([published[1]!.joined, asked]).toEqual([true, []]);
  });

  test('a reconnect with a gap is filled by page, and published as one replacement', async () => {
    const { link, published, asked, snapshot, fresh } = setup();
    link.connect().item('chat.follow', snapshot(0, 9));
    link.generation!.carrier.close('cut');
    link.connect().item('chat.follow', snapshot(30, 34));
    expect([published.length, fresh]).toEqual([1, [true, false]]);
    await settle();
    expect(published).toHaveLength(2);
    expect([published[1]!.joined, ordinals(published[1]!.item)]).toEqual([true, rows(10, 34).map((e) => e.ordinal)]);
    expect(asked.map((a) => a.through)).toEqual([34, 34]);
    expect(fresh).toEqual([true, false, true]);
  });

  test('a gap too large to fill is a new window that does not claim to be joined', async () => {
    const { link, published, asked, snapshot } = setup();
    link.connect().item('chat.follow', snapshot(0, 9));
    link.generation!.carrier.close('cut');
    link.connect().item('chat.follow', snapshot(990, 999));
    await settle();
    expect([published[1]!.joined, published[1]!.item.hasMore, ordinals(published[1]!.item)[0], asked.length]).toEqual([false, true, 950, 4]);
  });

  test('another view replaces everything', () => {
    const { link, published, snapshot, asked } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(5, 9));
    c.item('chat.follow', snapshot(3, 4, 'w'));
    expect([published[1]!.joined, asked]).toEqual([false, []]);
  });

  test('a journal that got shorter replaces everything', () => {
    const { link, published, snapshot } = setup();
    link.connect().item('chat.follow', snapshot(5, 9));
    link.generation!.carrier.close('cut');
    link.connect().item('chat.follow', snapshot(2, 6));
    expect(published[1]!.joined).toBe(false);
  });

  test('a repair that the carrier takes with it publishes nothing; the next generation does', async () => {
    const { link, stream, published, snapshot, answer, usual } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(0, 3));
    answer((_, signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(localError('CONNECTION_LOST', 'cut')))));
    c.item('chat.follow', { type: 'rows', cursor: 9, rows: rows(9, 9) });
    await settle();
    c.break();
    await settle();
    expect([published.length, stream.status.phase]).toEqual([1, 'waiting']);
    answer(usual);
    link.connect().item('chat.follow', snapshot(8, 12));
    await settle();
    // The page overlaps with what is there; nothing is missing.
    expect([published[1]!.joined, ordinals(published[1]!.item)]).toEqual([true, rows(0, 12).map((e) => e.ordinal)]);
  });

  test('a repair that the server refuses fails the stream', async () => {
    const { link, stream, snapshot, answer } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(0, 3));
    answer(() => Promise.reject(new ApiError({ code: 'LEDGER_QUARANTINED', message: '' }, 409)));
    c.item('chat.follow', { type: 'rows', cursor: 9, rows: rows(9, 9) });
    await settle();
    expect(stream.status).toMatchObject({ phase: 'failed', error: { code: 'LEDGER_QUARANTINED' } });
  });

  test('a page cancelled with its carrier is asked for again at the cursor of the next generation', async () => {
    const { link, stream, asked, snapshot, answer, usual } = setup();
    link.connect().item('chat.follow', snapshot(20, 29));
    answer((_, signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))));
    let page: JournalPage<Entry> | undefined;
    void stream.fetch((cursor) => ({ through: cursor, before: 20 })).then((p) => (page = p));
    await settle();
    link.generation!.carrier.close('cut');
    answer(usual);
    await settle();
    expect(page).toBeUndefined();
    link.connect().item('chat.follow', snapshot(25, 34));
    await settle();
    expect(asked.map((a) => a.through)).toEqual([29, 34]);
    expect(ordinals(page!)).toEqual(rows(10, 19).map((e) => e.ordinal));
  });

  test('a page that failed with the network alone is asked for again', async () => {
    const { link, stream, snapshot, answer, usual } = setup();
    link.connect().item('chat.follow', snapshot(20, 29));
    answer(() => Promise.reject(localError('CONNECTION_LOST', 'cut')));
    let page: JournalPage<Entry> | undefined;
    void stream.fetch((cursor) => ({ through: cursor, before: 20 })).then((p) => (page = p));
    await settle();
    answer(usual);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(page).toBeDefined();
  });

  test("a page that the server refuses is the caller's", async () => {
    const { link, stream, snapshot, answer } = setup();
    link.connect().item('chat.follow', snapshot(20, 29));
    answer(() => Promise.reject(new ApiError({ code: 'CHAT_NOT_FOUND', message: '' }, 404)));
    await expect(stream.fetch((cursor) => ({ through: cursor }))).rejects.toMatchObject({ code: 'CHAT_NOT_FOUND' });
    expect(stream.status.phase).toBe('open');
  });

  test('dispose ends a page that waits, and resolves', async () => {
    const { link, stream, snapshot } = setup();
    link.connect().item('chat.follow', snapshot(20, 29));
    link.generation!.carrier.close('cut');
    const page = stream.fetch((cursor) => ({ through: cursor }));
    const refused = expect(page).rejects.toMatchObject({ name: 'AbortError' });
    await stream.dispose();
    await refused;
  });

  test('a follow that ends is opened again and goes on where it was', async () => {
    const { link, published, snapshot } = setup();
    const c = link.connect();
    c.item('chat.follow', snapshot(0, 3));
    c.end('chat.follow');
    expect(c.opens('chat.follow')).toHaveLength(2);
    c.item('chat.follow', snapshot(2, 6));
    expect(published[1]!.joined).toBe(true);
  });
});
