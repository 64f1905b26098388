import { describe, expect, test } from 'vitest';
import { frontView, Panes, type View } from './panes.svelte';
import { memoryStore } from './storage';

const chat = (chatId: string): View => ({ kind: 'chat', chatId });
const shape = (p: Panes): string[][] => p.columns.map((c) => c.panes.map((pane) => pane.tabs.map((t) => (t.view.kind === 'chat' ? t.view.chatId : t.view.kind)).join(' ')));

describe('panes', () => {
  test('a passing view takes the place of the passing one, and stays when kept', () => {
    const p = new Panes(memoryStore());
    p.open(chat('a'), { passing: true });
    p.open(chat('b'), { passing: true });
    expect(shape(p)).toEqual([['b']]);
    p.keep(p.current.front!);
    p.open(chat('c'), { passing: true });
    expect(shape(p)).toEqual([['b c']]);
  });

  test('a view that is open is shown where it is', () => {
    const p = new Panes(memoryStore());
    p.open(chat('a'));
    p.splitActive('right', chat('b'));
    p.open(chat('a'));
    expect([shape(p), p.current === p.all[0]]).toEqual([[['a'], ['b']], true]);
  });

  test('four panes at most', () => {
    const p = new Panes(memoryStore());
    p.open(chat('a'));
    p.splitActive('right', chat('b'));
    p.splitActive('right', chat('x'));
    p.splitActive('down', chat('c'));
    p.splitActive('down', chat('x'));
    p.activate(p.all[0]!.id);
    p.splitActive('down', chat('d'));
    expect(shape(p)).toEqual([['a', 'd'], ['b', 'c']]);
    expect([p.canSplit('right'), p.canSplit('down')]).toEqual([false, false]);
  });

  test('closing the last tab closes its pane, but the last pane stays, empty', () => {
    const p = new Panes(memoryStore());
    p.open(chat('a'));
    p.splitActive('right', chat('b'));
    p.closeTab(p.current.front!);
    expect([shape(p), frontView(p.current)]).toEqual([[['a']], chat('a')]);
    p.closeTab(p.current.front!);
    expect([shape(p), p.view]).toEqual([[['']], undefined]);
  });

  test('closing the front tab shows its neighbour', () => {
    const p = new Panes(memoryStore());
    for (const id of ['a', 'b', 'c']) p.open(chat(id));
    p.select(p.current.id, p.current.tabs[1]!.id);
    p.closeTab(p.current.front!);
    expect(p.view).toEqual(chat('c'));
  });

  test('a deleted chat closes everywhere, its subagents too', () => {
    const p = new Panes(memoryStore());
    p.open(chat('a'));
    p.splitActive('right', { kind: 'chat', chatId: 'a', child: 'x' });
    p.open(chat('b'));
    p.closeChat('a');
    expect(shape(p)).toEqual([['b']]);
  });

  test('survive a reload, and new ids do not repeat', () => {
    const store = memoryStore();
    const before = new Panes(store);
    before.open(chat('a'));
    before.splitActive('right', chat('b'));
    before.resize(33);
    const after = new Panes(store);
    expect([shape(after), after.split, after.active]).toEqual([[['a'], ['b']], 33, before.active]);
    after.open(chat('c'));
    const ids = after.all.flatMap((p) => [p.id, ...p.tabs.map((t) => t.id)]);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('a damaged layout is a new one', () => {
    for (const text of ['{', '{}', '{"columns":[],"split":50,"active":"p1"}', '{"columns":[{"split":50,"panes":[]}],"split":50,"active":"p1"}', '{"columns":[{"split":50,"panes":[{"id":"p1","tabs":[{"id":"t","passing":true,"view":{"kind":"git"}}]}]}],"split":50,"active":"p1"}']) {
      expect(shape(new Panes(memoryStore([['panes', text]])))).toEqual([['']]);
    }
  });

  test('a splitter stays within its bounds', () => {
    const p = new Panes(memoryStore());
    p.resize(1);
    expect(p.split).toBe(20);
    p.resize(99);
    expect(p.split).toBe(80);
  });
});
