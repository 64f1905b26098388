import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ApiError, localError } from '../wire/errors';
import { settle } from '../wire/testing/scripted';
import type { Accepted, Page, SubmitRequest } from '../wire/types';
import { Drafts, SAVE_DELAY, type Draft } from './drafts';
import { Outbox, type Message } from './outbox.svelte';
import { memoryLargeStore } from './storage';

const accepted: Accepted = { chatId: 'c', turnId: 't', disposition: 'started' };
const message = (prompt: string, chatId = 'c') => ({ chatId, prompt, attachments: [], busy: 'queue' as const });

/** A server and a disk that outlive the page. */
function world() {
  const disk = new Map<string, Message>();
  const sent: { chatId: string; request: SubmitRequest }[] = [];
  const server = {
    instance: 'one' as string | undefined,
    answer: (_: SubmitRequest): Promise<Accepted> => Promise.resolve(accepted),
    rows: [] as Page['rows'],
  };
  let counter = 0;
  const page = (): Outbox =>
    new Outbox({
      api: {
        submit: (chatId, request) => {
          sent.push({ chatId, request });
          return server.answer(request);
        },
        page: () => Promise.resolve({ chatId: 'c', view: 'v', through: 0, rows: server.rows, hasMore: false }),
      },
      store: memoryLargeStore(disk),
      instance: () => server.instance,
      newId: () => `id ${++counter}`,
    });
  return { disk, sent, server, page };
}
const states = (o: Outbox): string[] => o.messages.map((m) => `${m.prompt}: ${m.state}`);

describe('outbox', () => {
  test('a message is on the disk before its request, and gone when it is accepted', async () => {
    const w = world();
    let stored: string[] = [];
    w.server.answer = () => {
      stored = [...w.disk.keys()];
      return Promise.resolve(accepted);
    };
    const o = w.page();
    expect(await o.send(message('hi'))).toEqual(accepted);
    await settle();
    expect([stored, o.messages, w.disk.size]).toEqual([['id 1'], [], 0]);
  });

  test('without a connection it is kept, over a reload too, and sent with the connection', async () => {
    const w = world();
    w.server.instance = undefined;
    const before = w.page();
    expect(await before.send(message('hi'))).toBeUndefined();
    expect([states(before), w.sent]).toEqual([['hi: unsent'], []]);
    const after = w.page();
    await after.loaded;
    expect(states(after)).toEqual(['hi: unsent']);
    w.server.instance = 'another';
    await after.connected();
    expect([w.sent.map((s) => s.request.requestId), after.messages]).toEqual([['id 1'], []]);
  });

  test('messages of one chat keep their order', async () => {
    const w = world();
    w.server.instance = undefined;
    const o = w.page();
    await o.send(message('1'));
    await o.send(message('2'));
    await o.send(message('other', 'd'));
    w.server.instance = 'one';
    await o.connected();
    await settle();
    expect(w.sent.filter((s) => s.chatId === 'c').map((s) => s.request.prompt)).toEqual(['1', '2']);
    expect(w.sent.filter((s) => s.chatId === 'd')).toHaveLength(1);
  });

  test('a lost answer is asked for again with the same request id on the same instance', async () => {
    const w = world();
    const o = w.page();
    w.server.answer = () => Promise.reject(localError('CONNECTION_LOST', '', 'unknown'));
    await o.send(message('hi'));
    expect(states(o)).toEqual(['hi: unanswered']);
    w.server.answer = () => Promise.resolve({ ...accepted, replayed: true });
    await o.connected();
    expect([w.sent.map((s) => s.request.requestId), o.messages]).toEqual([['id 1', 'id 1'], []]);
  });

  test('a lost answer is never sent again to another instance: it may have been sent', async () => {
    const w = world();
    const o = w.page();
    w.server.answer = () => Promise.reject(localError('TIMEOUT', '', 'unknown'));
    await o.send(message('hi'));
    w.server.instance = 'two';
    await o.connected();
    expect([states(o), w.sent.length]).toEqual([['hi: uncertain'], 1]);
  });

  test('a page that was closed during the request treats its answer as lost', async () => {
    const w = world();
    w.server.answer = () => new Promise(() => {});
    void w.page().send(message('hi'));
    await settle();
    const after = w.page();
    await after.loaded;
    expect(states(after)).toEqual(['hi: unanswered']);
    w.server.instance = 'two';
    await after.connected();
    expect([states(after), w.sent.length]).toEqual([['hi: uncertain'], 1]);
  });

  test('a refusal stays with its reason until the person decides', async () => {
    const w = world();
    const o = w.page();
    w.server.answer = () => Promise.reject(new ApiError({ code: 'QUEUE_FULL', message: 'full' }, 409));
    await o.send(message('hi'));
    expect(o.messages[0]).toMatchObject({ state: 'refused', error: { code: 'QUEUE_FULL' } });
    await o.connected();
    expect(w.sent).toHaveLength(1);
    w.server.answer = () => Promise.resolve(accepted);
    expect(await o.again('id 1')).toEqual(accepted);
    expect(o.messages).toEqual([]);
  });

  test('a refused message does not hold up the next', async () => {
    const w = world();
    const o = w.page();
    w.server.answer = () => Promise.reject(new ApiError({ code: 'REQUEST_TOO_LARGE', message: '' }, 413));
    await o.send(message('1'));
    w.server.answer = () => Promise.resolve(accepted);
    expect(await o.send(message('2'))).toEqual(accepted);
    expect(states(o)).toEqual(['1: refused']);
  });

  test('a server that was restarted in between did nothing: the message waits', async () => {
    const w = world();
    const o = w.page();
    w.server.answer = () => Promise.reject(new ApiError({ code: 'CLI_CONTROLLER_CHANGED', message: '' }, 409));
    await o.send(message('hi'));
    expect(states(o)).toEqual(['hi: unsent']);
  });

  test('an outcome that the server does not know is uncertain', async () => {
    const w = world();
    const o = w.page();
    w.server.answer = () => Promise.reject(new ApiError({ code: 'OUTCOME_UNKNOWN', message: '', details: { dispatched: 'unknown' } }, 503));
    await o.send(message('hi'));
    expect(states(o)).toEqual(['hi: uncertain']);
  });

  test('check finds the message in the transcript by its id, never by its text', async () => {
    const w = world();
    const o = w.page();
    w.server.answer = () => Promise.reject(localError('TIMEOUT', '', 'unknown'));
    await o.send(message('hi'));
    w.server.instance = 'two';
    await o.connected();
    w.server.rows = [{ kind: 'user', ordinal: 0, time: 0, text: 'hi', clientId: 'other' }];
    expect(await o.check('id 1')).toBe('not-found');
    w.server.rows = [{ kind: 'user', ordinal: 0, time: 0, text: 'hi', clientId: 'id 1' }];
    expect([await o.check('id 1'), o.messages]).toEqual(['arrived', []]);
  });

  test('a discarded message comes back as it was; one being sent does not', async () => {
    const w = world();
    const o = w.page();
    w.server.answer = () => new Promise(() => {});
    void o.send(message('hi'));
    await settle();
    expect(o.discard('id 1')).toBeUndefined();
    w.server.instance = undefined;
    await o.send(message('later', 'd'));
    expect([o.discard('id 2')?.prompt, w.disk.has('id 2')]).toEqual(['later', false]);
  });
});

describe('drafts', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const draft = (text: string): Draft => ({ text, attachments: [] });

  test('typing is on the disk after 300 ms at the latest, however long it goes on', async () => {
    const disk = new Map<string, Draft>();
    const d = new Drafts(memoryLargeStore(disk));
    for (let i = 1; i <= 4; i++) {
      d.set('c', draft('x'.repeat(i)));
      await vi.advanceTimersByTimeAsync(SAVE_DELAY / 3);
    }
    expect(disk.get('c')?.text).toBe('xxx');
    await vi.advanceTimersByTimeAsync(SAVE_DELAY);
    expect(disk.get('c')?.text).toBe('xxxx');
  });

  test('a draft survives a reload, and an empty one is removed', async () => {
    const disk = new Map<string, Draft>();
    const before = new Drafts(memoryLargeStore(disk));
    before.set('c', draft('hi'));
    await before.flush();
    const after = new Drafts(memoryLargeStore(disk));
    await after.loaded;
    expect(after.get('c')?.text).toBe('hi');
    after.remove('c');
    await after.flush();
    expect(disk.size).toBe(0);
  });

  test('what is typed before the disk was read is newer', async () => {
    const d = new Drafts(memoryLargeStore(new Map([['c', draft('old')], ['d', draft('gone')]])));
    d.set('c', draft('new'));
    d.remove('d');
    await d.loaded;
    expect([d.get('c')?.text, d.get('d')]).toEqual(['new', undefined]);
  });
});
