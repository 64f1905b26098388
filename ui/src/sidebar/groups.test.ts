import { describe, expect, test } from 'vitest';
import type { Chat, Folder } from '../wire/types';
import { arrange, everything, type Entry, type ListInput } from './groups';

const NOW = new Date(2026, 10, 30, 12).getTime();
const HOUR = 3_600_000;
const chat = (id: string, more: Partial<Chat> = {}): Chat => ({
  id, title: id, tags: [], pinned: false, archived: false, executorId: 'local', agent: 'demo', projectPath: '/srv/relay', ownerEpoch: 1,
  createdAt: NOW, lastActivity: NOW, unread: false, state: { phase: 'idle' }, ...more,
});
const folder = (id: string, chatIds: string[], more: Partial<Folder> = {}): Folder => ({ id, name: id, chatIds, ...more });
const input = (more: Partial<ListInput>): ListInput => ({
  chats: [], folders: [], archived: new Set(), by: 'folder', filter: everything, closed: new Set(), now: NOW, needsYou: () => false, running: () => false, ...more,
});
const show = (entries: Entry[]): string[] => entries.map((e) => (e.kind === 'group' ? `[${e.title} ${e.count}${e.collapsed ? ' closed' : ''}]` : e.chat.id));

describe('the list', () => {
  test('without folders it is the newest first, without a heading', () => {
    expect(show(arrange(input({ chats: [chat('a', { lastActivity: NOW - 2 }), chat('b', { lastActivity: NOW - 1 })] })))).toEqual(['b', 'a']);
  });

  test('what is pinned is above, then folders in their own order, then the rest', () => {
    const chats = [chat('a'), chat('b'), chat('c'), chat('d', { pinned: true })];
    expect(show(arrange(input({ chats, folders: [folder('x', ['c', 'gone', 'a']), folder('empty', [])] })))).toEqual(['[Pinned 1]', 'd', '[x 2]', 'c', 'a', '[empty 0]', '[No folder 1]', 'b']);
  });

  test('a collapsed folder keeps its count, and a filter looks into it', () => {
    const list = input({ chats: [chat('needle'), chat('b')], folders: [folder('x', ['needle'], { collapsed: true })] });
    expect(show(arrange(list))).toEqual(['[x 1 closed]', '[No folder 1]', 'b']);
    expect(show(arrange({ ...list, filter: { text: 'NEEDLE', only: 'all' } }))).toEqual(['[x 1]', 'needle']);
  });

  test('projects of one name are told apart by machine and path', () => {
    const entries = arrange(input({ by: 'project', chats: [chat('a'), chat('b', { projectPath: '/home/relay/' }), chat('c', { executorId: 'gpu' })] }));
    expect(entries.filter((e) => e.kind === 'group').map((e) => [e.title, e.detail])).toEqual([['relay', '/srv/relay'], ['relay', '/home/relay/'], ['relay', '/srv/relay']]);
  });

  test('by time', () => {
    const at = (h: number): Partial<Chat> => ({ lastActivity: NOW - h * HOUR });
    expect(show(arrange(input({ by: 'activity', chats: [chat('now'), chat('yesterday', at(20)), chat('week', at(80)), chat('old', at(900))] })))).toEqual([
      '[Today 1]', 'now', '[Yesterday 1]', 'yesterday', '[This week 1]', 'week', '[Earlier 1]', 'old',
    ]);
  });

  test('the archive is apart, by the chat or by the archived set', () => {
    const list = input({ chats: [chat('a'), chat('b', { archived: true }), chat('c')], archived: new Set(['c']) });
    expect(show(arrange(list))).toEqual(['a']);
    expect(show(arrange({ ...list, filter: { text: '', only: 'archived' } })).sort()).toEqual(['b', 'c']);
  });

  test('filters', () => {
    const list = input({ chats: [chat('a', { tags: ['bug'], unread: true }), chat('b', { projectPath: '/srv/worker' })], needsYou: (c) => c.id === 'b', running: (c) => c.id === 'a' });
    const with_ = (text: string, only: ListInput['filter']['only']): string[] => show(arrange({ ...list, filter: { text, only } }));
    expect([with_('bug', 'all'), with_('WORK srv', 'all'), with_('', 'needs-you'), with_('', 'running'), with_('', 'unread'), with_('nothing', 'all')]).toEqual([['a'], ['b'], ['b'], ['a'], ['a'], []]);
  });

  test('keys do not repeat, so that rows are not mixed up', () => {
    const keys = arrange(input({ chats: [chat('a'), chat('b', { pinned: true })], folders: [folder('x', ['a', 'b'])] })).map((e) => e.key);
    expect(new Set(keys).size).toBe(keys.length);
  });
});
