import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Api } from '../wire/api';
import { ApiError } from '../wire/errors';
import { ScriptedLink, settle } from '../wire/testing/scripted';
import type { Chat, Control, Folder, FolderList } from '../wire/types';
import { Chats, UNDO_TIME } from './chats.svelte';
import { Controls } from './control.svelte';
import { Folders } from './folders.svelte';

function chat(id: string, more: Partial<Chat> = {}): Chat {
  return {
    id, title: id, tags: [], pinned: false, archived: false, executorId: 'local', agent: 'demo', projectPath: '/p', ownerEpoch: 1,
    createdAt: 1, lastActivity: 1, unread: false, state: { phase: 'idle' }, ...more,
  };
}

/** A promise that the test decides about. */
function later<T>() {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((res, rej) => ([resolve, reject] = [res, rej]));
  return { promise, resolve, reject };
}

const refused = new ApiError({ code: 'FORBIDDEN', message: '' }, 403);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('chats', () => {
  function setup() {
    const link = new ScriptedLink();
    const calls: { id: string; answer: ReturnType<typeof later<Chat>> }[] = [];
    const api = {
      update: (id: string) => {
        const answer = later<Chat>();
        calls.push({ id, answer });
        return answer.promise;
      },
      remove: (id: string) => Promise.resolve({ chatId: id }),
    } as unknown as Api;
    const chats = new Chats(link, api);
    const c = link.connect();
    c.item('chats.list', { type: 'snapshot', chats: [chat('a'), chat('b')] });
    return { link, c, chats, calls };
  }
  const ids = (chats: Chats): string[] => [...chats.map.keys()];

  test('follow the snapshot and its changes', () => {
    const { c, chats } = setup();
    c.item('chats.list', { type: 'upsert', chat: chat('c') });
    c.item('chats.list', { type: 'remove', chatId: 'a' });
    expect(ids(chats)).toEqual(['b', 'c']);
  });

  test('a new snapshot replaces the list, and what was there stays until then', () => {
    const { link, c, chats } = setup();
    c.break();
    expect([ids(chats), chats.fresh]).toEqual([['a', 'b'], false]);
    link.connect().item('chats.list', { type: 'snapshot', chats: [chat('b')] });
    expect([ids(chats), chats.fresh]).toEqual([['b'], true]);
  });

  test('a change is shown at once, over what the stream says meanwhile, and corrected by the answer', async () => {
    const { c, chats, calls } = setup();
    const done = chats.update('a', { title: 'mine' });
    expect(chats.get('a')?.title).toBe('mine');
    c.item('chats.list', { type: 'upsert', chat: chat('a', { title: 'old', unread: true }) });
    expect(chats.get('a')).toMatchObject({ title: 'mine', unread: true });
    calls[0]!.answer.resolve(chat('a', { title: 'mine, trimmed' }));
    await done;
    expect(chats.get('a')?.title).toBe('mine, trimmed');
  });

  test('a refused change is taken back', async () => {
    const { chats, calls } = setup();
    const done = chats.update('a', { title: 'mine' });
    calls[0]!.answer.reject(refused);
    await expect(done).rejects.toBe(refused);
    expect(chats.get('a')?.title).toBe('a');
  });

  test('a deleted chat never comes back: not by a late answer, not by a late frame', async () => {
    const { c, chats, calls } = setup();
    const done = chats.update('a', { title: 'late' });
    await chats.remove('a');
    calls[0]!.answer.resolve(chat('a'));
    await done;
    c.item('chats.list', { type: 'upsert', chat: chat('a') });
    expect([ids(chats), chats.isDeleted('a')]).toEqual([['b'], true]);
  });

  test('archiving can be taken back for some seconds', async () => {
    const { chats, calls } = setup();
    const done = chats.archive('a');
    calls[0]!.answer.resolve(chat('a', { archived: true }));
    await done;
    expect([chats.undo?.chatId, chats.get('a')?.archived]).toEqual(['a', true]);
    await vi.advanceTimersByTimeAsync(UNDO_TIME);
    expect(chats.undo).toBeUndefined();
  });
});

describe('folders', () => {
  function setup() {
    const link = new ScriptedLink();
    const answers: ReturnType<typeof later<FolderList>>[] = [];
    const single: ReturnType<typeof later<Folder>>[] = [];
    const bodies: unknown[] = [];
    const many = (_: string | object, body?: unknown): Promise<FolderList> => {
      bodies.push(body ?? _);
      const answer = later<FolderList>();
      answers.push(answer);
      return answer.promise;
    };
    const one = (): Promise<Folder> => {
      const answer = later<Folder>();
      single.push(answer);
      return answer.promise;
    };
    const api = { deleteFolder: many, orderFolders: many, moveChat: many, createFolder: one, updateFolder: one } as unknown as Api;
    const folders = new Folders(link, api);
    const c = link.connect();
    c.item('folders.follow', { type: 'snapshot', folders: [folder('y', 'c3'), folder('x', 'c1', 'c2')], order: ['x', 'y'], archived: ['old'] });
    return { link, c, folders, answers, single, bodies };
  }
  const folder = (id: string, ...chatIds: string[]): Folder => ({ id, name: id.toUpperCase(), chatIds });
  const order = (f: Folders): string[] => f.list.map((each) => each.id);
  const inside = (f: Folders): Record<string, readonly string[]> => Object.fromEntries(f.list.map((each) => [each.id, each.chatIds]));

  test('the order frame is authoritative', () => {
    const { c, folders } = setup();
    expect(order(folders)).toEqual(['x', 'y']);
    c.item('folders.follow', { type: 'order', order: ['y', 'x'] });
    expect(order(folders)).toEqual(['y', 'x']);
    c.item('folders.follow', { type: 'upsert', folder: folder('z'), order: ['z', 'y', 'x'] });
    expect(order(folders)).toEqual(['z', 'y', 'x']);
  });

  test('a folder that the order does not name yet is at the end', () => {
    const { c, folders } = setup();
    c.item('folders.follow', { type: 'upsert', folder: folder('z') });
    expect(order(folders)).toEqual(['x', 'y', 'z']);
  });

  test('the archived set is replaced whole', () => {
    const { c, folders } = setup();
    expect([...folders.archived]).toEqual(['old']);
    c.item('folders.follow', { type: 'archived' });
    expect([...folders.archived]).toEqual([]);
  });

  test('a chat is in one folder: an upsert takes it from the other', () => {
    const { c, folders } = setup();
    c.item('folders.follow', { type: 'upsert', folder: folder('y', 'c3', 'c1') });
    expect(inside(folders)).toEqual({ x: ['c2'], y: ['c3', 'c1'] });
  });

  test('a move is shown at once, and a refusal takes it back', async () => {
    const { folders, answers, bodies } = setup();
    const done = folders.move('c1', 'y', 0);
    expect([inside(folders), bodies]).toEqual([{ x: ['c2'], y: ['c1', 'c3'] }, [{ folderId: 'y', position: 0 }]]);
    answers[0]!.reject(refused);
    await expect(done).rejects.toBe(refused);
    expect(inside(folders)).toEqual({ x: ['c1', 'c2'], y: ['c3'] });
  });

  test('a move within a folder counts without the chat itself', () => {
    const { folders } = setup();
    void folders.move('c1', 'x', 1);
    expect(folders.get('x')?.chatIds).toEqual(['c2', 'c1']);
  });

  test('two moves at once: the answer of the first does not undo the second', async () => {
    const { folders, answers } = setup();
    const first = folders.move('c1', 'y');
    void folders.move('c2', undefined);
    answers[0]!.resolve({ folders: [folder('x', 'c2'), folder('y', 'c3', 'c1')], archived: [] });
    await first;
    expect(inside(folders)).toEqual({ x: [], y: ['c3', 'c1'] });
  });

  test('an order of another device during a drag is kept when the drag is refused', async () => {
    const { c, folders, answers } = setup();
    const done = folders.order('y', 'x');
    expect(order(folders)).toEqual(['y', 'x']);
    c.item('folders.follow', { type: 'upsert', folder: folder('z'), order: ['z', 'x', 'y'] });
    expect(order(folders)).toEqual(['z', 'y', 'x']);
    answers[0]!.reject(refused);
    await expect(done).rejects.toBe(refused);
    expect(order(folders)).toEqual(['z', 'x', 'y']);
  });

  test('a deleted folder never comes back, and its chats stay in none', async () => {
    const { c, folders, answers, single } = setup();
    const renamed = folders.rename('x', 'New');
    const done = folders.remove('x');
    expect([order(folders), folders.of('c1')]).toEqual([['y'], undefined]);
    answers[0]!.resolve({ folders: [folder('y', 'c3')], archived: [] });
    await done;
    single[0]!.resolve(folder('x', 'c1'));
    await renamed;
    c.item('folders.follow', { type: 'upsert', folder: folder('x', 'c1'), order: ['x', 'y'] });
    expect(order(folders)).toEqual(['y']);
  });

  test('a folder that another device deleted is gone for a late answer too', async () => {
    const { c, folders, single } = setup();
    const done = folders.collapse('x', true);
    c.item('folders.follow', { type: 'remove', id: 'x', order: ['y'] });
    single[0]!.resolve(folder('x'));
    await done;
    expect(order(folders)).toEqual(['y']);
  });

  test('a new folder is there with the answer, and once when the frame comes too', async () => {
    const { c, folders, single } = setup();
    const done = folders.create('Z');
    single[0]!.resolve(folder('z'));
    await done;
    expect(order(folders)).toEqual(['x', 'y', 'z']);
    c.item('folders.follow', { type: 'upsert', folder: folder('z'), order: ['x', 'y', 'z'] });
    expect(order(folders)).toEqual(['x', 'y', 'z']);
  });
});

describe('control', () => {
  const permission = (occurrence: string, since: number) => ({
    occurrence, runId: 'r', controlId: `c ${occurrence}`, kind: 'permission', since,
    row: { kind: 'permission', ordinal: 1, time: 1, occurrence, tool: 'bash', input: { command: 'ls' }, options: [] },
  });
  const state = (chatId: string, revision: number, ...pending: unknown[]) =>
    ({ chatId, revision, phase: pending.length > 0 ? 'waiting' : 'running', queue: { entries: [], paused: false }, pending, jobs: [] }) as unknown as Control;

  test('lists what needs somebody, the oldest first, and goes around', async () => {
    const link = new ScriptedLink();
    const controls = new Controls(link);
    link.connect().item('control.follow', { type: 'snapshot', chats: [state('a', 1, permission('late', 9)), state('b', 1, permission('early', 3), permission('equal', 3))] });
    await settle();
    expect(controls.needs.map((n) => n.pending.occurrence)).toEqual(['early', 'equal', 'late']);
    expect([controls.next()?.pending.occurrence, controls.next('early')?.pending.occurrence, controls.next('late')?.pending.occurrence]).toEqual(['early', 'equal', 'early']);
    expect(controls.next('gone')?.pending.occurrence).toBe('early');
  });

  test('an older revision does not replace a newer one; a new generation does', () => {
    const link = new ScriptedLink();
    const controls = new Controls(link);
    const c = link.connect();
    c.item('control.follow', { type: 'snapshot', chats: [state('a', 5, permission('x', 1))] });
    c.item('control.follow', { type: 'upsert', control: state('a', 4) });
    expect(controls.get('a')?.pending).toHaveLength(1);
    c.item('control.follow', { type: 'upsert', control: state('a', 6) });
    expect(controls.get('a')?.pending).toHaveLength(0);
    c.break();
    expect([controls.fresh, controls.get('a')?.revision]).toEqual([false, 6]);
    link.connect().item('control.follow', { type: 'snapshot', chats: [state('a', 1)] });
    expect(controls.get('a')?.revision).toBe(1);
  });

  test('nothing needs anybody: there is no next', () => {
    expect(new Controls(new ScriptedLink()).next()).toBeUndefined();
  });
});
