import { describe, expect, test } from 'vitest';
import { chatsItem, control, controlItem, eventItem, foldersItem, followItem, page, row } from './decode';
import { ProtocolError } from './errors';

const head = { ordinal: 3, time: 1 };
const chat = {
  id: 'c', title: '', tags: null, pinned: false, archived: false, executorId: 'local', agent: 'demo', projectPath: '', ownerEpoch: 0, createdAt: 1, lastActivity: 1, unread: false,
  state: { phase: 'idle' },
};
const ask = { kind: 'permission', ...head, occurrence: 'o', tool: 'bash', input: null, options: null };
const state = { chatId: 'c', revision: 1, phase: 'waiting', queue: { entries: null, paused: false }, pending: [{ occurrence: 'o', runId: 'r', controlId: 'x', kind: 'permission', since: 1, row: ask }], jobs: null };

describe('rows', () => {
  test('a kind that is not known is kept whole, whatever it is called', () => {
    for (const kind of ['hologram', 'opaque', 'constructor', '__proto__']) {
      expect(row({ kind, ...head, more: { a: 1 } })).toMatchObject({ kind: 'opaque', type: kind, ordinal: 3, members: { more: { a: 1 } } });
    }
  });

  test('a row has a kind, an ordinal and a time', () => {
    for (const bad of [null, 'x', [], {}, { kind: 1, ...head }, { kind: 'user', time: 1 }, { kind: 'user', ordinal: 1.5, time: 1 }, { kind: 'user', ordinal: 1 }]) expect(() => row(bad), JSON.stringify(bad)).toThrow(ProtocolError);
  });

  test('lists that Go writes as null are empty', () => {
    expect(row(ask)).toMatchObject({ options: [], input: {} });
    expect(page({ chatId: 'c', view: 'v', through: -1, rows: null, hasMore: false }).rows).toEqual([]);
    expect(control(state)).toMatchObject({ queue: { entries: [] }, jobs: [], pending: [{ row: { options: [] } }] });
    expect(chatsItem({ type: 'snapshot' })).toEqual({ type: 'snapshot', chats: [] });
    expect(chatsItem({ type: 'upsert', chat })).toMatchObject({ chat: { tags: [] } });
  });
});

describe('items', () => {
  test('of folders: the order is that of the snapshot when it says none', () => {
    expect(foldersItem({ type: 'snapshot', folders: [{ id: 'a', name: 'A', chatIds: null }] })).toEqual({ type: 'snapshot', folders: [{ id: 'a', name: 'A', chatIds: [] }], order: ['a'], archived: [] });
    expect(foldersItem({ type: 'upsert', folder: { id: 'a', name: 'A', chatIds: [] } })).not.toHaveProperty('order');
    expect(foldersItem({ type: 'archived' })).toEqual({ type: 'archived', archived: [] });
  });

  test('of a chat', () => {
    expect(followItem({ type: 'snapshot', view: 'v', cursor: -1 })).toEqual({ type: 'snapshot', view: 'v', cursor: -1, rows: [], live: [], hasMore: false });
    expect(followItem({ type: 'rows', cursor: 3, rows: [{ kind: 'user', ...head, text: 'x' }] })).toMatchObject({ rows: [{ text: 'x' }], live: [], ended: [] });
    expect(followItem({ type: 'live', cursor: 3, live: [{ runId: 'r', partId: 'p', kind: 'assistant', offset: 0, text: '' }] })).toMatchObject({ live: [{ partId: 'p' }] });
  });

  const bad: [string, (v: unknown) => unknown, unknown][] = [
    ['a chat in no known phase', chatsItem, { type: 'upsert', chat: { ...chat, state: { phase: 'dancing' } } }],
    ['an unknown type', chatsItem, { type: 'update', chat }],
    ['a member of another type', chatsItem, { type: 'remove', chatId: 'c', chat }],
    ['a removal of nothing', chatsItem, { type: 'remove' }],
    ['a request that is no request', controlItem, { type: 'upsert', control: { ...state, pending: [{ ...state.pending[0], row: { kind: 'user', ...head } }] } }],
    ['a request without an offer', controlItem, { type: 'upsert', control: { ...state, pending: [{ ...state.pending[0], controlId: undefined }] } }],
    ['a queue that is no queue', controlItem, { type: 'upsert', control: { ...state, queue: [] } }],
    ['a snapshot without a view', followItem, { type: 'snapshot', cursor: 1 }],
    ['rows without a cursor', followItem, { type: 'rows', rows: [] }],
    ['a header without a chat', followItem, { type: 'header', cursor: 1 }],
    ['a live part of an unknown kind', followItem, { type: 'live', cursor: 1, live: [{ runId: 'r', partId: 'p', kind: 'run', offset: 0, text: '' }] }],
    ['a ready without an instance', eventItem, { type: 'ready', clientId: 'c', serverInstanceId: '', host: { version: '1', heartbeatMs: 1 } }],
    ['a cancel for an unknown reason', eventItem, { type: 'cancel', eventId: 'e', reason: 'BORED' }],
    ['a list that is an object', foldersItem, { type: 'order', order: {} }],
  ];
  test.each(bad)('%s is refused', (_, read, value) => expect(() => read(value)).toThrow(ProtocolError));

  test('a refusal names the place', () => {
    expect(() => chatsItem({ type: 'snapshot', chats: [chat, { ...chat, title: 1 }] })).toThrow('chats.list.chats[1].title');
  });
});
