import { isObject, readJson, type Store } from './storage';

/** Where keys work. "anywhere" is every other place too. */
export type Region = 'anywhere' | 'transcript' | 'card' | 'composer';

export interface Command {
  readonly id: string;
  readonly region: Region;
  readonly label: string;
  /** The keys it comes with, such as "mod+Shift+O"; mod is ⌘ or Ctrl. */
  readonly keys: readonly string[];
}

const command = (id: string, region: Region, label: string, ...keys: string[]): Command => ({ id, region, label, keys });

/** Every command that has keys. The labels of one region are shown together. */
export const commands: readonly Command[] = [
  command('needs-you', 'anywhere', 'Next chat that needs you', 'F8'),
  command('palette', 'anywhere', 'Command palette', 'mod+K'),
  command('new-chat', 'anywhere', 'New chat', 'mod+Shift+O'),
  command('sidebar', 'anywhere', 'Show or hide the sidebar', 'mod+B'),
  command('settings', 'anywhere', 'Settings', 'mod+,'),
  command('keyboard', 'anywhere', 'Keyboard help', 'mod+/'),
  command('chat-previous', 'anywhere', 'Previous chat', 'Alt+ArrowUp'),
  command('chat-next', 'anywhere', 'Next chat', 'Alt+ArrowDown'),
  command('pane-1', 'anywhere', 'First pane', 'Alt+1'),
  command('pane-2', 'anywhere', 'Second pane', 'Alt+2'),
  command('pane-3', 'anywhere', 'Third pane', 'Alt+3'),
  command('pane-4', 'anywhere', 'Fourth pane', 'Alt+4'),
  command('split', 'anywhere', 'Split the pane to the right', 'mod+\\'),
  command('row-next', 'transcript', 'Next row', 'j'),
  command('row-previous', 'transcript', 'Previous row', 'k'),
  command('user-previous', 'transcript', 'Previous message of yours', 'mod+ArrowUp'),
  command('user-next', 'transcript', 'Next message of yours', 'mod+ArrowDown'),
  command('first-row', 'transcript', 'Beginning', 'Home'),
  command('last-row', 'transcript', 'End, and follow', 'End'),
  command('open-row', 'transcript', 'Open or close the row', 'o', 'Enter'),
  command('copy-row', 'transcript', 'Copy the row', 'c'),
  command('to-composer', 'transcript', 'Write a message', '/', 'i'),
  command('allow', 'card', 'Allow once', 'y'),
  command('always', 'card', 'Allow always', 'a'),
  command('deny', 'card', 'Deny', 'n'),
  command('deny-why', 'card', 'Deny and say why', 'r'),
  command('send', 'composer', 'Send or queue', 'Enter'),
  command('send-other', 'composer', 'The other of queue and steer', 'mod+Enter'),
  command('interrupt', 'composer', 'Interrupt and send', 'mod+Shift+Enter'),
  command('stop', 'composer', 'Stop the run', 'mod+.'),
];

/** What a keyboard event says, as far as a binding needs it. */
export interface Stroke {
  readonly key: string;
  readonly code?: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly shiftKey: boolean;
}

interface Binding {
  readonly mod: boolean;
  readonly alt: boolean;
  readonly shift: boolean;
  readonly key: string;
}

/** Reads a binding such as "mod+Shift+O"; undefined when it is none. */
export function parseBinding(text: string): Binding | undefined {
  // "+" itself is a key: only a plus with something after it separates.
  const parts = text.split(/\+(?=.)/);
  const key = parts.pop();
  // One character, or a named key such as ArrowUp.
  if (!key || !/^(?:.|[A-Z][A-Za-z0-9]+)$/u.test(key) || ['Alt', 'Shift', 'Control', 'Meta'].includes(key)) return undefined;
  if (parts.some((p) => !['mod', 'Alt', 'Shift'].includes(p)) || new Set(parts).size !== parts.length) return undefined;
  const [mod, alt, shift] = ['mod', 'Alt', 'Shift'].map((p) => parts.includes(p)) as [boolean, boolean, boolean];
  return { mod, alt, shift, key: key.length === 1 ? key.toLowerCase() : key };
}

/** The binding of a stroke, undefined for a bare modifier. */
export function bindingOf(stroke: Stroke, mac: boolean): string | undefined {
  let key = stroke.key;
  if (['Control', 'Meta', 'Alt', 'Shift', 'Dead', 'Process', 'Unidentified', 'AltGraph'].includes(key)) return undefined;
  // With Alt a key may give another character; the key itself is meant.
  if (stroke.altKey && stroke.code && /^(Key|Digit)/.test(stroke.code)) key = stroke.code.replace(/^Key|^Digit/, '');
  const mod = mac ? stroke.metaKey : stroke.ctrlKey;
  const letter = key.length === 1;
  // Shift that only makes another character is part of it.
  const shift = stroke.shiftKey && (!letter || key.toLowerCase() !== key.toUpperCase());
  const shown = letter && (mod || stroke.altKey || shift) ? key.toUpperCase() : key;
  return [mod && 'mod', stroke.altKey && 'Alt', shift && 'Shift', shown].filter(Boolean).join('+');
}

function same(a: string, b: string): boolean {
  const [x, y] = [parseBinding(a), parseBinding(b)];
  return x !== undefined && y !== undefined && x.mod === y.mod && x.alt === y.alt && x.shift === y.shift && x.key === y.key;
}

/** Whether two regions can have the focus at once. */
function meet(a: Region, b: Region): boolean {
  return a === b || a === 'anywhere' || b === 'anywhere';
}

const glyphs: Record<string, string> = { ArrowUp: '↑', ArrowDown: '↓', ArrowLeft: '←', ArrowRight: '→', Enter: '↵', Escape: 'Esc', ' ': 'Space' };

/** A binding as people read it: "⇧⌘O" or "Ctrl+Shift+O". */
export function showBinding(text: string, mac: boolean): string {
  const b = parseBinding(text);
  if (!b) return '';
  const key = glyphs[b.key] ?? (b.key.length === 1 && (b.mod || b.alt || b.shift) ? b.key.toUpperCase() : b.key);
  if (mac) return `${b.alt ? '⌥' : ''}${b.shift ? '⇧' : ''}${b.mod ? '⌘' : ''}${key}`;
  return [b.mod && 'Ctrl', b.alt && 'Alt', b.shift && 'Shift', key].filter(Boolean).join('+');
}

const KEY = 'keys';

function isKeys(value: unknown): value is Record<string, string[]> {
  return isObject(value) && Object.values(value).every((v) => Array.isArray(v) && v.every((k) => typeof k === 'string'));
}

/** The bindings of this browser. */
export class Keymap {
  readonly #store: Store;
  readonly mac: boolean;
  #own = $state.raw<Readonly<Record<string, readonly string[]>>>({});

  constructor(store: Store, mac: boolean) {
    this.#store = store;
    this.mac = mac;
    this.#own = readJson(store, KEY, isKeys) ?? {};
  }

  keys(id: string): readonly string[] {
    return this.#own[id] ?? commands.find((c) => c.id === id)?.keys ?? [];
  }

  /** The first binding of a command as people read it, '' without one. */
  shown(id: string): string {
    const first = this.keys(id)[0];
    return first ? showBinding(first, this.mac) : '';
  }

  /** The command of a stroke in a region. singleKeys says whether keys without a modifier count. */
  find(stroke: Stroke, region: Region, singleKeys = true): string | undefined {
    const binding = bindingOf(stroke, this.mac);
    // Ctrl on a Mac, and the Windows key elsewhere, are the system's.
    if (binding === undefined || (this.mac ? stroke.ctrlKey : stroke.metaKey)) return undefined;
    if (!singleKeys && /^(Shift\+)?.$/u.test(binding)) return undefined;
    return commands.find((c) => c.region === region && this.keys(c.id).some((k) => same(k, binding)))?.id;
  }

  /** The commands that a binding would collide with when given to a command. */
  conflicts(id: string, binding: string): Command[] {
    const of = commands.find((c) => c.id === id);
    if (!of) return [];
    return commands.filter((c) => c.id !== id && meet(c.region, of.region) && this.keys(c.id).some((k) => same(k, binding)));
  }

  /** Gives a command other keys. It refuses what collides or is no binding. */
  rebind(id: string, keys: readonly string[]): boolean {
    if (keys.some((k) => !parseBinding(k) || this.conflicts(id, k).length > 0)) return false;
    this.#own = { ...this.#own, [id]: keys };
    this.#save();
    return true;
  }

  reset(id: string): void {
    const { [id]: _, ...rest } = this.#own;
    this.#own = rest;
    this.#save();
  }

  isOwn(id: string): boolean {
    return id in this.#own;
  }

  #save(): void {
    this.#store.set(KEY, JSON.stringify(this.#own));
  }
}
