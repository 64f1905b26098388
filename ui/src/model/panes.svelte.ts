import { isObject, readJson, type Store } from './storage';

/** What a tab shows. */
export type View =
  | { readonly kind: 'chat'; readonly chatId: string; readonly child?: string }
  | { readonly kind: 'agents' }
  | { readonly kind: 'settings'; readonly section?: string };

export interface Tab {
  readonly id: string;
  readonly view: View;
  /** A tab that the next opened view replaces, as one looks through chats. */
  readonly passing: boolean;
}

export interface Pane {
  readonly id: string;
  readonly tabs: readonly Tab[];
  /** The id of the tab in front, undefined for an empty pane. */
  readonly front: string | undefined;
}

/** A column has one pane or two, one above the other. */
export interface Column {
  readonly panes: readonly Pane[];
  /** The share of the first pane, in percent. */
  readonly split: number;
}

interface Layout {
  readonly columns: readonly Column[];
  readonly split: number;
  readonly active: string;
}

export const MAX_COLUMNS = 2;
export const MAX_ROWS = 2;
/** A part is at least this share, in percent. */
export const MIN_SPLIT = 20;

const KEY = 'panes';
const HALF = 50;

/** The panes and what is open in them. */
export class Panes {
  readonly #store: Store;
  #counter = 0;
  columns = $state.raw<readonly Column[]>([]);
  /** The share of the first column, in percent. */
  split = $state(HALF);
  /** The id of the pane that has the attention. */
  active = $state('');

  readonly all: readonly Pane[] = $derived(this.columns.flatMap((c) => c.panes));
  readonly current: Pane = $derived(this.all.find((p) => p.id === this.active) ?? this.all[0]!);
  /** The view in front of the active pane. */
  readonly view: View | undefined = $derived(frontView(this.current));

  constructor(store: Store) {
    this.#store = store;
    const kept = readJson(store, KEY, isLayout);
    if (kept) {
      this.columns = kept.columns;
      this.split = kept.split;
      this.active = kept.active;
      for (const pane of kept.columns.flatMap((c) => c.panes)) for (const id of [pane.id, ...pane.tabs.map((t) => t.id)]) this.#counter = Math.max(this.#counter, Number(id.slice(1)) || 0);
    } else {
      const pane = this.#newPane();
      this.columns = [{ panes: [pane], split: HALF }];
      this.active = pane.id;
    }
  }

  /**
   * Shows a view in the active pane: its tab when it has one already, else in
   * place of a passing tab, else in a new one. It goes to the pane that shows
   * the view in front when there is one.
   */
  open(view: View, options: { passing?: boolean; pane?: string } = {}): void {
    const passing = options.passing ?? false;
    const shown = options.pane === undefined ? this.all.find((p) => same(frontView(p), view)) : undefined;
    const pane = shown ?? this.all.find((p) => p.id === (options.pane ?? this.active)) ?? this.current;
    const there = pane.tabs.find((t) => same(t.view, view));
    const tab: Tab = { id: there?.id ?? this.#id('t'), view, passing: there ? there.passing && passing : passing };
    const old = there ?? (passing ? pane.tabs.find((t) => t.passing) : undefined);
    const tabs = old ? pane.tabs.map((t) => (t === old ? tab : t)) : [...pane.tabs, tab];
    this.active = pane.id;
    this.#replace(pane.id, { ...pane, tabs, front: tab.id });
  }

  select(paneId: string, tabId: string): void {
    const pane = this.all.find((p) => p.id === paneId);
    if (!pane?.tabs.some((t) => t.id === tabId)) return;
    this.active = paneId;
    this.#replace(paneId, { ...pane, front: tabId });
  }

  activate(paneId: string): void {
    if (this.active === paneId || !this.all.some((p) => p.id === paneId)) return;
    this.active = paneId;
    this.#save();
  }

  /** Makes a passing tab stay. */
  keep(tabId: string): void {
    for (const pane of this.all) {
      if (pane.tabs.some((t) => t.id === tabId && t.passing)) this.#replace(pane.id, { ...pane, tabs: pane.tabs.map((t) => (t.id === tabId ? { ...t, passing: false } : t)) });
    }
  }

  /** Closes a tab; a pane that is empty then goes, but for the last. */
  closeTab(tabId: string): void {
    const pane = this.all.find((p) => p.tabs.some((t) => t.id === tabId));
    if (!pane) return;
    const at = pane.tabs.findIndex((t) => t.id === tabId);
    const tabs = pane.tabs.filter((t) => t.id !== tabId);
    if (tabs.length === 0 && this.all.length > 1) {
      this.closePane(pane.id);
      return;
    }
    const front = pane.front === tabId ? (tabs[Math.min(at, tabs.length - 1)]?.id ?? undefined) : pane.front;
    this.#replace(pane.id, { ...pane, tabs, front });
  }

  closePane(paneId: string): void {
    if (this.all.length < 2) return;
    this.columns = this.columns
      .map((c) => ({ ...c, panes: c.panes.filter((p) => p.id !== paneId) }))
      .filter((c) => c.panes.length > 0);
    if (!this.all.some((p) => p.id === this.active)) this.active = this.all[0]!.id;
    this.#save();
  }

  /** Closes what is open of a chat that is gone. */
  closeChat(chatId: string): void {
    for (const tab of this.all.flatMap((p) => p.tabs)) if (tab.view.kind === 'chat' && tab.view.chatId === chatId) this.closeTab(tab.id);
  }

  canSplit(direction: 'right' | 'down'): boolean {
    if (direction === 'right') return this.columns.length < MAX_COLUMNS;
    const column = this.columns.find((c) => c.panes.some((p) => p.id === this.active));
    return (column?.panes.length ?? MAX_ROWS) < MAX_ROWS;
  }

  /** Makes a pane beside or below the active one, with the same view or the given one. */
  splitActive(direction: 'right' | 'down', view: View | undefined = this.view): void {
    if (!this.canSplit(direction)) return;
    const pane = this.#newPane(view);
    const at = this.columns.findIndex((c) => c.panes.some((p) => p.id === this.active));
    this.columns =
      direction === 'right'
        ? this.columns.toSpliced(at + 1, 0, { panes: [pane], split: HALF })
        : this.columns.map((c, i) => (i === at ? { ...c, panes: [...c.panes, pane] } : c));
    this.active = pane.id;
    this.#save();
  }

  resize(percent: number, column?: number): void {
    const share = Math.max(MIN_SPLIT, Math.min(100 - MIN_SPLIT, percent));
    if (column === undefined) this.split = share;
    else this.columns = this.columns.map((c, i) => (i === column ? { ...c, split: share } : c));
    this.#save();
  }

  #newPane(view?: View): Pane {
    const tabs: Tab[] = view ? [{ id: this.#id('t'), view, passing: false }] : [];
    return { id: this.#id('p'), tabs, front: tabs[0]?.id };
  }

  #id(letter: string): string {
    return `${letter}${++this.#counter}`;
  }

  #replace(paneId: string, pane: Pane): void {
    this.columns = this.columns.map((c) => ({ ...c, panes: c.panes.map((p) => (p.id === paneId ? pane : p)) }));
    this.#save();
  }

  #save(): void {
    const layout: Layout = { columns: this.columns, split: this.split, active: this.active };
    this.#store.set(KEY, JSON.stringify(layout));
  }
}

export function frontView(pane: Pane): View | undefined {
  return pane.tabs.find((t) => t.id === pane.front)?.view;
}

/** Whether two views are the same place. */
export function same(a: View | undefined, b: View | undefined): boolean {
  if (!a || !b || a.kind !== b.kind) return false;
  if (a.kind === 'chat' && b.kind === 'chat') return a.chatId === b.chatId && a.child === b.child;
  return true;
}

function isView(value: unknown): value is View {
  if (!isObject(value)) return false;
  if (value['kind'] === 'chat') return typeof value['chatId'] === 'string' && ['string', 'undefined'].includes(typeof value['child']);
  return value['kind'] === 'agents' || value['kind'] === 'settings';
}

function isPane(value: unknown): value is Pane {
  return (
    isObject(value) && typeof value['id'] === 'string' && Array.isArray(value['tabs']) &&
    value['tabs'].every((t) => isObject(t) && typeof t['id'] === 'string' && typeof t['passing'] === 'boolean' && isView(t['view']))
  );
}

function isLayout(value: unknown): value is Layout {
  return (
    isObject(value) && typeof value['split'] === 'number' && typeof value['active'] === 'string' && Array.isArray(value['columns']) &&
    value['columns'].length > 0 && value['columns'].length <= MAX_COLUMNS &&
    value['columns'].every((c) => isObject(c) && typeof c['split'] === 'number' && Array.isArray(c['panes']) && c['panes'].length > 0 && c['panes'].length <= MAX_ROWS && c['panes'].every(isPane))
  );
}
