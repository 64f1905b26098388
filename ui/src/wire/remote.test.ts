import { describe, expect, test } from 'vitest';
import { ApiError, ProtocolError } from './errors';
import { RemoteStream, type Item, type RemoteOptions, type StreamStatus } from './remote';
import { ScriptedLink, settle } from './testing/scripted';

function setup(options: Partial<RemoteOptions> = {}) {
  const link = new ScriptedLink();
  const items: Item[] = [];
  const statuses: StreamStatus[] = [];
  const make = (): RemoteStream =>
    new RemoteStream({
      link, name: 'chats.list', args: { a: 1 },
      consume: (item) => {
        items.push(item);
        item.accept();
      },
      onStatus: (s) => void statuses.push(s),
      ...options,
    });
  return { link, items, statuses, make };
}

describe('RemoteStream', () => {
  test('opens with each generation and numbers its openings', () => {
    const { link, items, make } = setup();
    const first = link.connect();
    const stream = make();
    expect(first.stream('chats.list').args).toEqual({ a: 1 });
    first.item('chats.list', 'x');
    first.break();
    expect(stream.status.phase).toBe('waiting');
    const second = link.connect();
    second.item('chats.list', 'y');
    expect(items.map((i) => [i.value, i.generation])).toEqual([['x', 1], ['y', 2]]);
  });

  test('waits for a generation when there is none', () => {
    const { link, items, make } = setup();
    const stream = make();
    expect(stream.status.phase).toBe('waiting');
    link.connect().item('chats.list', 1);
    expect(items).toHaveLength(1);
  });

  test('the signal of an item aborts with its opening, and accept says so', () => {
    const { link, items, make } = setup({ consume: (item) => void items.push(item) });
    const c = link.connect();
    make();
    c.item('chats.list', 1);
    const [item] = items as [Item];
    expect([item.signal.aborted, item.accept()]).toEqual([false, true]);
    c.break();
    expect([item.signal.aborted, item.accept()]).toEqual([true, false]);
  });

  test('items are consumed one after the other', async () => {
    const order: string[] = [];
    let release = (): void => {};
    const { link, make } = setup({
      consume: async (item) => {
        order.push(`begin ${String(item.value)}`);
        if (item.value === 1) await new Promise<void>((r) => (release = r));
        order.push(`end ${String(item.value)}`);
      },
    });
    const c = link.connect();
    make();
    c.item('chats.list', 1);
    c.item('chats.list', 2);
    await settle();
    expect(order).toEqual(['begin 1']);
    release();
    await settle();
    expect(order).toEqual(['begin 1', 'end 1', 'begin 2', 'end 2']);
  });

  test('a broken stream reopens once by itself while the host is there, then waits for the next generation', () => {
    const { link, items, statuses, make } = setup();
    const c = link.connect();
    make();
    c.end('chats.list');
    expect(c.opens('chats.list')).toHaveLength(2);
    c.end('chats.list');
    expect(c.opens('chats.list')).toHaveLength(2);
    expect(statuses.at(-1)!.phase).toBe('waiting');
    link.connect().item('chats.list', 1);
    expect(items).toHaveLength(1);
  });

  test('an accepted item renews the right to reopen', () => {
    const { link, make } = setup();
    const c = link.connect();
    make();
    c.end('chats.list');
    c.item('chats.list', 1);
    c.end('chats.list');
    expect(c.opens('chats.list')).toHaveLength(3);
  });

  test('a business error is final, over generations too, until restart', () => {
    const { link, make } = setup();
    const c = link.connect();
    const stream = make();
    c.fail('chats.list', 'FORBIDDEN');
    expect(stream.status).toMatchObject({ phase: 'failed', error: { code: 'FORBIDDEN' } });
    c.break();
    const next = link.connect();
    expect(next.opens('chats.list')).toHaveLength(0);
    stream.restart();
    expect([next.opens('chats.list').length, stream.status.phase]).toEqual([1, 'open']);
  });

  test('a protocol error of the consumer is final and cancels the opening', () => {
    const { link, make } = setup({
      consume: () => {
        throw new ProtocolError('bad');
      },
    });
    const c = link.connect();
    const stream = make();
    c.item('chats.list', 1);
    expect(stream.status).toMatchObject({ phase: 'failed', error: expect.any(ProtocolError) });
    expect(c.cancelled(1)).toBe(true);
  });

  test('a server that shuts down is a broken link, not a failure', () => {
    const { link, make } = setup();
    const c = link.connect();
    const stream = make();
    c.fail('chats.list', 'SHUTTING_DOWN');
    expect(stream.status.phase).not.toBe('failed');
  });

  test('restart replaces the opening: what comes late of the old one is not consumed', async () => {
    let release = (): void => {};
    const seen: unknown[] = [];
    const { link, make } = setup({
      consume: async (item) => {
        await new Promise<void>((r) => (release = r));
        if (item.accept()) seen.push(item.value);
      },
    });
    const c = link.connect();
    const stream = make();
    c.item('chats.list', 'old');
    stream.restart();
    release();
    await settle();
    expect(seen).toEqual([]);
    expect(c.cancelled(1)).toBe(true);
    c.item('chats.list', 'new');
    release();
    await settle();
    expect(seen).toEqual(['new']);
  });

  test('a late failure of an old opening does not touch the new one', async () => {
    let reject = (_: unknown): void => {};
    const { link, make } = setup({ consume: () => new Promise<void>((_, r) => (reject = r)) });
    const c = link.connect();
    const stream = make();
    c.item('chats.list', 1);
    stream.restart();
    reject(new ApiError({ code: 'INTERNAL', message: '' }));
    await settle();
    expect(stream.status.phase).toBe('open');
  });

  test('dispose ends it for good and resolves when the consumer has ended', async () => {
    let release = (): void => {};
    const { link, make } = setup({ consume: () => new Promise<void>((r) => (release = r)) });
    const c = link.connect();
    const stream = make();
    c.item('chats.list', 1);
    let done = false;
    void stream.dispose().then(() => (done = true));
    await settle();
    expect([done, c.cancelled(1)]).toEqual([false, true]);
    release();
    await settle();
    expect(done).toBe(true);
    stream.restart();
    expect(link.connect().opens('chats.list')).toHaveLength(0);
  });
});
