import { describe, expect, test } from 'vitest';
import { bindingOf, commands, Keymap, parseBinding, showBinding, type Stroke } from './keymap.svelte';
import { memoryStore } from './storage';

const stroke = (key: string, more: Partial<Stroke> = {}): Stroke => ({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more });

describe('keymap', () => {
  test('the usual keys have no conflict', () => {
    const map = new Keymap(memoryStore(), false);
    for (const c of commands) for (const keys of c.keys) expect([c.id, keys, map.conflicts(c.id, keys)]).toEqual([c.id, keys, []]);
  });

  test('every usual key can be read and found again by its stroke', () => {
    for (const mac of [false, true]) {
      const map = new Keymap(memoryStore(), mac);
      for (const c of commands) {
        for (const keys of c.keys) {
          const b = parseBinding(keys)!;
          expect(b, keys).toBeDefined();
          const s = stroke(b.key, { altKey: b.alt, shiftKey: b.shift, [mac ? 'metaKey' : 'ctrlKey']: b.mod });
          expect([keys, map.find(s, c.region)]).toEqual([keys, c.id]);
        }
      }
    }
  });

  test('a letter with Shift is the same whatever the browser calls it', () => {
    const map = new Keymap(memoryStore(), false);
    for (const key of ['o', 'O']) expect(map.find(stroke(key, { ctrlKey: true, shiftKey: true }), 'anywhere')).toBe('new-chat');
    expect(map.find(stroke('o', { ctrlKey: true }), 'anywhere')).toBeUndefined();
  });

  test('a sign that needs Shift on some keyboards is itself', () => {
    expect(bindingOf(stroke('/', { shiftKey: true, ctrlKey: true }), false)).toBe('mod+/');
    expect(parseBinding('mod++')).toMatchObject({ mod: true, key: '+' });
  });

  test('Alt with a digit is the digit, whatever character it gives', () => {
    const map = new Keymap(memoryStore(), true);
    expect(map.find(stroke('¡', { altKey: true, code: 'Digit1' }), 'anywhere')).toBe('pane-1');
  });

  test("the system's own modifier is left alone", () => {
    expect(new Keymap(memoryStore(), true).find(stroke('k', { ctrlKey: true }), 'anywhere')).toBeUndefined();
    expect(new Keymap(memoryStore(), false).find(stroke('k', { metaKey: true }), 'anywhere')).toBeUndefined();
  });

  test('single keys work in their region only, and can be switched off', () => {
    const map = new Keymap(memoryStore(), false);
    expect(map.find(stroke('y'), 'card')).toBe('allow');
    expect(map.find(stroke('y'), 'transcript')).toBeUndefined();
    expect(map.find(stroke('y'), 'card', false)).toBeUndefined();
    expect(map.find(stroke('End'), 'transcript', false)).toBe('last-row');
    expect(map.find(stroke('k', { ctrlKey: true }), 'anywhere', false)).toBe('palette');
  });

  test('a conflict is named and refused, in the same region or with one that is anywhere', () => {
    const map = new Keymap(memoryStore(), false);
    expect(map.conflicts('row-next', 'k').map((c) => c.id)).toEqual(['row-previous']);
    expect(map.conflicts('row-next', 'F8').map((c) => c.id)).toEqual(['needs-you']);
    expect(map.conflicts('row-next', 'y')).toEqual([]);
    expect(map.rebind('row-next', ['k'])).toBe(false);
    expect(map.keys('row-next')).toEqual(['j']);
  });

  test('what is no binding is refused', () => {
    const map = new Keymap(memoryStore(), false);
    for (const bad of ['', 'mod', 'mod+', 'mod+mod+k', 'Hyper+k', 'Shift']) expect(map.rebind('palette', [bad]), bad).toBe(false);
  });

  test('own keys are kept, free the usual ones, and can be given back', () => {
    const store = memoryStore();
    const map = new Keymap(store, false);
    expect(map.rebind('palette', ['mod+P'])).toBe(true);
    const again = new Keymap(store, false);
    expect([again.find(stroke('p', { ctrlKey: true }), 'anywhere'), again.find(stroke('k', { ctrlKey: true }), 'anywhere')]).toEqual(['palette', undefined]);
    expect(again.rebind('new-chat', ['mod+K'])).toBe(true);
    again.reset('palette');
    expect([again.keys('palette'), again.isOwn('palette')]).toEqual([['mod+K'], false]);
  });

  test('a damaged store gives the usual keys', () => {
    for (const text of ['{', '[]', '{"palette":1}', '{"palette":[1]}', 'null']) {
      expect(new Keymap(memoryStore([['keys', text]]), false).keys('palette')).toEqual(['mod+K']);
    }
  });

  test('are shown as the system writes them', () => {
    expect([showBinding('mod+Shift+O', true), showBinding('mod+Shift+O', false), showBinding('Alt+ArrowUp', true), showBinding('j', false)]).toEqual(['⇧⌘O', 'Ctrl+Shift+O', '⌥↑', 'j']);
  });
});
