// One open transcript: follows it, pages in it, and keeps what is drawn.

import { tick } from 'svelte';
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import type { Api } from '../wire/api';
import { followItem } from '../wire/decode';
import { asApiError, type ApiError, type ProtocolError } from '../wire/errors';
import { JournalStream, type PageRequest } from '../wire/journal';
import type { Link } from '../wire/link';
import type { Message } from '../model/outbox.svelte';
import { MAX_PAGE_MESSAGES, type Chat, type Control, type FollowItem, type Page, type Pending, type Row, type Todo, type Usage } from '../wire/types';
import { answered, NO_CARDS, offered, stateOf, type Answer, type Cards, type CardState } from './cards';
import { byKey, fold, withLive, type Facts, type Item } from './fold';
import { Follow } from './follow';
import { applyLive, endParts, type Parts } from './parts';
import { append, beginning, EMPTY, extend, forward, open, prepend, rejoin, replace, type Change, type Window } from './window';

/** How many messages the first window and a page have. */
const PAGE_MESSAGES = 60;
/** The shortest time between two updates of the screen, in milliseconds: at most 30 a second. */
const FRAME = 33;

/** Where a session gets its data. */
export interface Sources {
  readonly link: Link & {
    /** Makes another connection, because something may have been lost on this one. */
    renew(reason: string): void;
  };
  readonly api: Api;
}

/** A transcript that is open in a pane. The pane that made it disposes it. */
export class ChatSession {
  /** What is drawn, in order. */
  items = $state.raw<readonly Item[]>([]);
  /** True for the one update in which items came or went at the start. */
  shift = $state(false);
  /** The chat as the transcript's own stream gave it. */
  header = $state.raw<Chat | undefined>();
  /** The transient state of the chat, undefined while it is not known. */
  control = $state.raw<Control | undefined>();
  cards = $state.raw<Cards>(NO_CARDS);
  /** Whether the first window is there. */
  loaded = $state(false);
  /** Whether what is shown is of the current connection. */
  fresh = $state(false);
  failure = $state.raw<ApiError | ProtocolError | undefined>();
  pageFailure = $state.raw<ApiError | undefined>();
  loadingOlder = $state(false);
  loadingNewer = $state(false);
  /** Whether there are rows before and after those in memory. */
  older = $state(false);
  end = $state(true);
  /** How many rows came below while the reader was elsewhere. */
  below = $state(0);
  following = $state(true);
  /** The newest todo list and the newest usage of the rows in memory. */
  todos = $state.raw<readonly Todo[] | undefined>();
  usage = $state.raw<Usage | undefined>();

  /** What the reader opened and closed, by the key of the item. */
  readonly opened = new SvelteMap<string, boolean>();
  /** Rows fetched whole, by ordinal. */
  readonly bodies = new SvelteMap<number, Row>();
  readonly loadingBodies = new SvelteSet<number>();
  readonly follow = new Follow();

  #window: Window = EMPTY;
  #parts: Parts = new Map();
  #folded: readonly Item[] = [];
  #foldedBy = new Map<string, Item>();
  #foldedRows: readonly Row[] | undefined;
  #foldedFacts: Facts | undefined;
  #controlKnown = false;
  /** The connection on which an answer was lost last. */
  #lostOn = 0;
  #outbox: readonly Message[] = [];
  #queue: { item: FollowItem; joined: boolean }[] = [];
  #flushed = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #disposed = false;
  /** How many messages the pages that were asked for have. */
  readonly #sizes = new WeakMap<PageRequest, number>();
  readonly #journal: JournalStream<FollowItem, Row, Page>;

  constructor(private readonly sources: Sources, readonly chatId: string, readonly child: string | undefined) {
    this.#journal = new JournalStream<FollowItem, Row, Page>({
      link: sources.link,
      name: 'chat.follow',
      args: { chatId, ...(child !== undefined && { child }), maxMessages: PAGE_MESSAGES },
      decode: followItem,
      page: (request, signal) => sources.api.page(chatId, { ...request, max: this.#sizes.get(request) ?? PAGE_MESSAGES, child }, signal),
      publish: (item, joined) => this.#publish(item, joined),
      onFresh: (fresh) => (this.fresh = fresh),
      onStatus: (status) => (this.failure = status.phase === 'failed' ? status.error : undefined),
    });
  }

  async dispose(): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#timer);
    await this.#journal.dispose();
  }

  /** Begins again after a failure. */
  retry(): void {
    this.failure = undefined;
    this.#journal.restart();
  }

  get rows(): readonly Row[] {
    return this.#window.rows;
  }

  // ---- what arrives

  #publish(item: FollowItem, joined: boolean): void {
    this.#queue.push({ item, joined });
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, this.#flushed + FRAME - performance.now());
    this.#timer = setTimeout(() => this.#flush(), wait);
  }

  /** Applies everything that arrived, so that a part and its row change places in one step. */
  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#disposed) return;
    this.#flushed = performance.now();
    let shift = false;
    for (const { item, joined } of this.#queue.splice(0)) {
      const change = this.#apply(item, joined);
      if (!change) continue;
      this.#window = change.window;
      shift ||= change.shift;
    }
    this.#show(shift);
  }

  #apply(item: FollowItem, joined: boolean): Change | undefined {
    const w = this.#window;
    switch (item.type) {
      case 'snapshot': {
        if (item.header) this.header = item.header;
        this.#parts = applyLive(new Map(), item.live);
        if (this.loaded) {
          const change = rejoin(w, item, joined, this.follow.following);
          this.#count(change.window);
          return change;
        }
        this.loaded = true;
        return { window: open(item), shift: false };
      }
      case 'rows': {
        this.#parts = applyLive(endParts(this.#parts, item.rows, item.ended), item.live);
        const change = append(w, item.rows, item.cursor, this.follow.following);
        this.#count(change.window);
        return change;
      }
      case 'live':
        this.#parts = applyLive(endParts(this.#parts, [], item.ended), item.live);
        return undefined;
      case 'header':
        this.header = item.header;
        return undefined;
    }
  }

  #count(next: Window): void {
    if (!this.follow.following) this.below += Math.max(0, next.cursor - this.#window.cursor);
  }

  /** Takes in the chat's transient state. */
  setControl(control: Control | undefined, known: boolean): void {
    this.control = control;
    this.#controlKnown = known;
    const { generation } = this.sources.link;
    const later = known && generation !== undefined && generation.number > this.#lostOn;
    this.cards = offered(this.cards, this.child === undefined ? (control?.pending ?? []) : [], later);
    this.#show(false);
  }

  /** Takes in the chat's messages that are not confirmed. Those the transcript shows are left out. */
  setOutbox(messages: readonly Message[]): void {
    this.#outbox = messages;
    this.#show(false);
  }

  /** The request ids of the messages the transcript shows. */
  arrived(messages: readonly Message[]): string[] {
    if (messages.length === 0) return [];
    const ids = new Set<string>();
    for (const r of this.#window.rows) if (r.kind === 'user' && r.clientId !== undefined) ids.add(r.clientId);
    return messages.map((m) => m.requestId).filter((id) => ids.has(id));
  }

  // ---- what is drawn

  #show(shift: boolean): void {
    const w = this.#window;
    const facts: Facts = {
      child: this.child,
      activeRun: this.child === undefined && this.#controlKnown ? (this.control?.runId ?? null) : undefined,
      end: w.end,
      open: new Set(this.cards.pending.map((p) => p.occurrence)),
    };
    if (this.#foldedRows !== w.rows || !sameFacts(this.#foldedFacts, facts)) {
      this.#folded = fold(w.rows, facts, this.#foldedBy);
      this.#foldedBy = byKey(this.#folded);
      if (this.#foldedRows !== w.rows) this.#derive(w.rows);
      this.#foldedRows = w.rows;
      this.#foldedFacts = facts;
    }
    this.shift = shift;
    // Parts and cards belong below the newest row; elsewhere they would lie.
    this.items = w.end ? withLive(this.#folded, this.#parts, this.cards.pending, w.cursor + 1, this.#unconfirmed()) : this.#folded;
    this.older = w.older;
    this.end = w.end;
    if (shift) void tick().then(() => (this.shift = false));
  }

  #unconfirmed(): readonly Message[] {
    if (this.#outbox.length === 0) return this.#outbox;
    const arrived = new Set(this.arrived(this.#outbox));
    return this.#outbox.filter((m) => !arrived.has(m.requestId));
  }

  #derive(rows: readonly Row[]): void {
    let todos: readonly Todo[] | undefined;
    let usage: Usage | undefined;
    for (let i = rows.length - 1; i >= 0 && !(todos && usage); i--) {
      const r = rows[i]!;
      if (!todos && r.kind === 'tool' && r.tool === 'todo' && r.input.todos?.length) todos = r.input.todos;
      if (!usage && r.kind === 'run' && r.usage?.contextTokens) usage = r.usage;
    }
    // What was seen stays true while the window moves away from it.
    this.todos = todos ?? this.todos;
    this.usage = usage ?? this.usage;
  }

  // ---- paging

  async loadOlder(): Promise<void> {
    if (this.loadingOlder || !this.#window.older || !this.loaded) return;
    this.loadingOlder = true;
    try {
      const page = await this.#fetch((cursor) => ({ through: cursor, ...before(this.#window) }), PAGE_MESSAGES);
      this.#flush();
      this.#turn(prepend(this.#window, page));
    } catch (thrown) {
      this.#pageFailed(thrown);
    } finally {
      this.loadingOlder = false;
    }
  }

  async loadNewer(): Promise<void> {
    if (this.loadingNewer || this.#window.end || !this.loaded) return;
    this.loadingNewer = true;
    try {
      let asked = forward(this.#window);
      const page = await this.#fetch(() => (asked = forward(this.#window)), MAX_PAGE_MESSAGES);
      this.#flush();
      this.#turn(extend(this.#window, page, asked));
    } catch (thrown) {
      this.#pageFailed(thrown);
    } finally {
      this.loadingNewer = false;
    }
  }

  /** Makes the end of the transcript the window, and follows it. */
  async toEnd(): Promise<void> {
    this.follow.resume();
    this.setFollowing();
    if (!this.#window.end) await this.#jump((cursor) => ({ through: cursor }));
  }

  /** Makes the beginning of the transcript the window. */
  async toStart(): Promise<void> {
    this.follow.leave();
    this.setFollowing();
    if (this.#window.older) await this.#jump((cursor) => beginning({ ...this.#window, cursor }), MAX_PAGE_MESSAGES);
  }

  async #jump(request: (cursor: number) => PageRequest, max = PAGE_MESSAGES): Promise<void> {
    this.loadingNewer = true;
    try {
      let asked: PageRequest = { through: -1 };
      const page = await this.#fetch((cursor) => (asked = request(cursor)), max);
      this.#flush();
      this.#turn(replace(this.#window, page, asked));
    } catch (thrown) {
      this.#pageFailed(thrown);
    } finally {
      this.loadingNewer = false;
    }
  }

  /** Fetches a page of up to so many messages. */
  #fetch(request: (cursor: number) => PageRequest, max: number): Promise<Page> {
    return this.#journal.fetch((cursor) => {
      // The journal asks once for each attempt, and repairs with its own size.
      const asked = request(cursor);
      this.#sizes.set(asked, max);
      return asked;
    });
  }

  #turn(change: Change): void {
    this.pageFailure = undefined;
    this.#window = change.window;
    this.#show(change.shift);
  }

  #pageFailed(thrown: unknown): void {
    if (!this.#disposed) this.pageFailure = asApiError(thrown);
  }

  /** Takes over whether the list follows. */
  setFollowing(): void {
    this.following = this.follow.following;
    if (this.following) this.below = 0;
  }

  /** Fetches a row that came as its head. */
  async loadBody(ordinal: number): Promise<void> {
    if (this.loadingBodies.has(ordinal)) return;
    this.loadingBodies.add(ordinal);
    try {
      this.bodies.set(ordinal, await this.sources.api.body(this.chatId, ordinal, this.child));
    } catch (thrown) {
      this.#pageFailed(thrown);
    } finally {
      this.loadingBodies.delete(ordinal);
    }
  }

  // ---- requests to the user

  cardState(p: Pending): CardState {
    return stateOf(this.cards, p);
  }

  /** Answers a permission request. */
  decide(p: Pending, optionId: string, message?: string): Promise<void> {
    return this.#answer(p, () =>
      this.sources.api.decide(this.chatId, p.occurrence, { runId: p.runId, controlId: p.controlId, optionId, ...(message && { message }) }),
    );
  }

  /** Answers a question; undefined declines it. */
  answerQuestion(p: Pending, answers: Record<string, string[]> | undefined, message?: string): Promise<void> {
    return this.#answer(p, () =>
      this.sources.api.answer(this.chatId, p.occurrence, {
        runId: p.runId, controlId: p.controlId, ...(answers ? { answers } : { decline: true }), ...(message && { message }),
      }),
    );
  }

  async #answer(p: Pending, send: () => Promise<{ outcome: string }>): Promise<void> {
    const { occurrence, controlId } = p;
    if (this.cardState(p).kind !== 'open') return;
    const number = this.sources.link.generation?.number ?? 0;
    this.#note(occurrence, { state: 'sending', controlId });
    try {
      const { outcome } = await send();
      this.#note(occurrence, { state: outcome === 'unknown' ? 'unknown' : 'delivered', controlId });
    } catch (thrown) {
      const error = asApiError(thrown);
      if (error.code === 'OUTCOME_UNKNOWN') this.#note(occurrence, { state: 'unknown', controlId });
      else if (error.dispatched === 'unknown') this.#lost(occurrence, controlId, number);
      else this.#note(occurrence, { state: 'refused', controlId, message: `${error.message} Nothing was decided.` });
    }
  }

  /** The state on the next connection tells what became of an answer; it is made if the link still stands. */
  #lost(occurrence: string, controlId: string, number: number): void {
    this.#lostOn = Math.max(this.#lostOn, number);
    this.#note(occurrence, { state: 'lost', controlId });
    if (this.sources.link.generation?.number === number) this.sources.link.renew('An answer may have been lost.');
    else this.setControl(this.control, this.#controlKnown);
  }

  #note(occurrence: string, answer: Answer): void {
    this.cards = answered(this.cards, occurrence, answer);
  }
}

function before(w: Window): { before?: number } {
  const first = w.rows[0];
  return first === undefined ? {} : { before: first.ordinal };
}

function sameFacts(a: Facts | undefined, b: Facts): boolean {
  return a !== undefined && a.activeRun === b.activeRun && a.end === b.end && a.open.size === b.open.size && [...a.open].every((o) => b.open.has(o));
}
