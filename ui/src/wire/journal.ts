import { ApiError, CarrierError, ProtocolError } from './errors';
import type { Link } from './link';
import { RemoteStream, type Item, type StreamStatus } from './remote';
import type { StreamName } from './types';

/** The end of what a consumer has: a view and the ordinal of its newest entry. */
interface Position {
  readonly view: string;
  readonly cursor: number;
}

/** What a journal needs to know of an item of its follow. */
export interface JournalItem<Entry> {
  readonly type: string;
  /** The ordinal of the newest entry sent, -1 for none. */
  readonly cursor: number;
  readonly view?: string;
  readonly rows?: readonly Entry[];
  readonly hasMore?: boolean;
}

/** What a journal needs to know of a page. */
export interface JournalPage<Entry> {
  readonly view: string;
  readonly rows: readonly Entry[];
  readonly hasMore: boolean;
}

/** What to page: entries up to through, and before that ordinal when given. */
export interface PageRequest {
  readonly through: number;
  readonly before?: number;
}

export interface JournalOptions<I extends JournalItem<Entry>, Entry extends { ordinal: number }, P extends JournalPage<Entry>> {
  link: Link;
  name: StreamName;
  args?: unknown;
  decode(value: unknown): I;
  /** Fetches one page. A CarrierError or an abort means: try again later. */
  page(request: PageRequest, signal: AbortSignal): Promise<P>;
  /**
   * Takes an item. A snapshot replaces the window, or, when joined is true, its
   * rows go on from (or overlap with) what was published before: then nothing
   * is missing between the two. Other items only ever go on without a gap.
   */
  publish(item: I, joined: boolean): void;
  onFresh?(fresh: boolean): void;
  onStatus?(status: StreamStatus): void;
}

/**
 * How many pages a repair fetches before it gives up the older part: about two
 * thousand messages, more than anybody reads after coming back.
 */
const MAX_REPAIR_PAGES = 4;

/** The pause before a page that failed with the link is tried again on the same connection, in milliseconds. */
const PAGE_RETRY = 500;

/**
 * Follows an append-only journal. The follow is opened first and its snapshot
 * is the first window, so nothing falls between history and subscription. A
 * gap, a jump or a reconnect is repaired by page and published as one snapshot.
 */
export class JournalStream<I extends JournalItem<Entry>, Entry extends { ordinal: number }, P extends JournalPage<Entry>> {
  readonly #options: JournalOptions<I, Entry, P>;
  readonly #remote: RemoteStream;
  readonly #end = new AbortController();
  /** What was published, over generations. */
  #at: Position | undefined;
  /** The generation whose snapshot has been published. */
  #generation = 0;
  #fresh = false;
  /** Resolve when the window is of the current generation. */
  #waiters: (() => void)[] = [];
  #generationEnd = new AbortController();
  readonly #pages = new Set<Promise<unknown>>();

  constructor(options: JournalOptions<I, Entry, P>) {
    this.#options = options;
    this.#remote = new RemoteStream({
      link: options.link,
      name: options.name,
      args: options.args,
      consume: (item) => this.#consume(item),
      onStatus: (status) => {
        if (status.phase !== 'open') this.#setFresh(false);
        options.onStatus?.(status);
      },
    });
  }

  get status(): StreamStatus {
    return this.#remote.status;
  }

  /** The ordinal of the newest entry, -1 for an empty journal or before the first snapshot. */
  get cursor(): number {
    return this.#at?.cursor ?? -1;
  }

  restart(): void {
    this.#setFresh(false);
    this.#remote.restart();
  }

  async dispose(): Promise<void> {
    this.#end.abort(new DOMException('The journal was closed.', 'AbortError'));
    this.#generationEnd.abort();
    for (const f of this.#waiters.splice(0)) f();
    await this.#remote.dispose();
    await Promise.allSettled(this.#pages);
  }

  /**
   * Fetches history for the consumer. The request is made from the cursor, again
   * for each generation that breaks on the way; a broken link is never an error
   * here. It rejects with the server's error, or an AbortError after dispose.
   */
  fetch(request: (cursor: number) => PageRequest): Promise<P> {
    const running = this.#fetch(request);
    this.#pages.add(running);
    const done = (): void => void this.#pages.delete(running);
    running.then(done, done);
    return running;
  }

  async #fetch(request: (cursor: number) => PageRequest): Promise<P> {
    for (;;) {
      await this.#whenFresh();
      this.#end.signal.throwIfAborted();
      const generation = this.#generationEnd.signal;
      try {
        return await this.#options.page(request(this.cursor), AbortSignal.any([generation, this.#end.signal]));
      } catch (thrown) {
        this.#end.signal.throwIfAborted();
        if (generation.aborted) continue;
        if (!broken(thrown)) throw thrown;
        await pause(PAGE_RETRY, AbortSignal.any([generation, this.#end.signal]));
      }
    }
  }

  async #whenFresh(): Promise<void> {
    while (!this.#fresh && !this.#end.signal.aborted) await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  #consume(item: Item): void | Promise<void> {
    const value = this.#options.decode(item.value);
    const first = item.generation !== this.#generation;
    if (value.type === 'snapshot') {
      if (value.view === undefined) throw new ProtocolError(`${this.#options.name} has a snapshot without a view`);
      return this.#snapshot(item, value, value.view);
    }
    if (first || !this.#at) throw new ProtocolError(`${this.#options.name} begins with a ${value.type}`);
    const rows = value.rows ?? [];
    const at = this.#at;
    if (contiguous(rows, at.cursor)) {
      this.#publish(item, value, { view: at.view, cursor: rows.at(-1)?.ordinal ?? at.cursor }, false);
      return;
    }
    return this.#repair(item, value, at);
  }

  #snapshot(item: Item, value: I, view: string): void | Promise<void> {
    const before = this.#at;
    const to: Position = { view, cursor: value.cursor };
    const start = value.rows?.[0]?.ordinal ?? value.cursor + 1;
    const same = before?.view === view && value.cursor >= before.cursor;
    if (!before || !same || start <= before.cursor + 1 || !value.hasMore) {
      this.#publish(item, value, to, same);
      return;
    }
    return this.#fill(item, value, before, to, value.rows ?? []);
  }

  /** Entries came with a gap before them or again: fetches what is between. */
  #repair(item: Item, value: I, at: Position): Promise<void> {
    const rows = (value.rows ?? []).filter((e) => e.ordinal > at.cursor);
    return this.#fill(item, value, at, { view: at.view, cursor: value.cursor }, contiguousTail(rows));
  }

  /** Pages backwards from have until it joins the position, then publishes once. */
  async #fill(item: Item, value: I, from: Position, to: Position, have: readonly Entry[]): Promise<void> {
    let rows = [...have];
    let more = true;
    for (let pages = 0; pages < MAX_REPAIR_PAGES; pages++) {
      const start = rows[0]?.ordinal ?? to.cursor + 1;
      if (start <= from.cursor + 1 || !more) break;
      const page = await this.#repairPage({ through: to.cursor, ...(rows.length > 0 && { before: start }) }, item.signal);
      if (page.view !== to.view) throw new CarrierError('The transcript was reloaded meanwhile.');
      rows = [...page.rows.filter((e) => e.ordinal < start), ...rows];
      more = page.hasMore;
      if (page.rows.length === 0) break;
    }
    const joined = (rows[0]?.ordinal ?? to.cursor + 1) <= from.cursor + 1;
    // A delta that filled its own gap is still a delta.
    const hasMore = value.type === 'snapshot' || !joined ? { hasMore: more } : {};
    const type = joined ? value.type : 'snapshot';
    const live = type === 'snapshot' && value.type !== 'snapshot' ? { view: to.view } : {};
    this.#publish(item, { ...value, ...live, ...hasMore, type, rows: joined ? rows.filter((e) => value.type === 'snapshot' || e.ordinal > from.cursor) : rows }, to, joined);
  }

  async #repairPage(request: PageRequest, signal: AbortSignal): Promise<P> {
    for (;;) {
      try {
        return await this.#options.page(request, signal);
      } catch (thrown) {
        if (signal.aborted) throw new CarrierError('The stream was replaced.');
        if (!broken(thrown)) throw thrown;
        await pause(PAGE_RETRY, signal);
      }
    }
  }

  #publish(item: Item, value: I, at: Position, joined: boolean): void {
    if (!item.accept()) return;
    this.#at = at;
    this.#generation = item.generation;
    this.#options.publish(value, joined);
    this.#setFresh(true);
  }

  #setFresh(fresh: boolean): void {
    if (fresh === this.#fresh) return;
    this.#fresh = fresh;
    if (fresh) {
      this.#generationEnd = new AbortController();
      for (const f of this.#waiters.splice(0)) f();
    } else {
      this.#generationEnd.abort(new CarrierError('The generation is over.'));
    }
    this.#options.onFresh?.(fresh);
  }
}

/** Whether the entries go on from the cursor, each by one. */
function contiguous(rows: readonly { ordinal: number }[], cursor: number): boolean {
  return rows.every((e, i) => e.ordinal === cursor + 1 + i);
}

/** The longest contiguous end of the entries. */
function contiguousTail<Entry extends { ordinal: number }>(rows: readonly Entry[]): readonly Entry[] {
  let start = rows.length;
  while (start > 0 && (start === rows.length || rows[start - 1]!.ordinal + 1 === rows[start]!.ordinal)) start--;
  return rows.slice(start);
}

function broken(thrown: unknown): boolean {
  return thrown instanceof CarrierError || (thrown instanceof ApiError && thrown.status === 0 && thrown.code !== 'PROTOCOL');
}

/** Waits; it returns early when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}
