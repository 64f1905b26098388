import type { PhysicalStream } from './carrier';
import { ApiError, CarrierError, ProtocolError } from './errors';
import type { Generation, Link } from './link';
import type { StreamName } from './types';

/** One item of a stream. */
export interface Item {
  readonly value: unknown;
  /** The physical opening of this stream the item came on, from 1. */
  readonly generation: number;
  /** Aborts when that opening is over. */
  readonly signal: AbortSignal;
  /**
   * Takes the item as applied. It is false when the opening is over: then
   * nothing of the item may be applied. It renews the stream's right to one
   * reopening of its own.
   */
  accept(): boolean;
}

/** Where a stream stands. */
export type StreamStatus =
  | { readonly phase: 'waiting' }
  | { readonly phase: 'open' }
  | { readonly phase: 'failed'; readonly error: ApiError | ProtocolError }
  | { readonly phase: 'disposed' };

export interface RemoteOptions {
  link: Link;
  name: StreamName;
  args?: unknown;
  /**
   * Takes the items, one after the other: the next one waits for the promise.
   * Throwing a ProtocolError or ApiError fails the stream; a CarrierError
   * counts as a broken link.
   */
  consume(item: Item): void | Promise<void>;
  onStatus?(status: StreamStatus): void;
}

/** Codes of an error frame that say something about the server's life and not about the request. */
const passing: ReadonlySet<string> = new Set(['SHUTTING_DOWN', 'CANCELLED']);

/**
 * A logical stream with one consumer that outlives its physical openings. It
 * is opened again with each connection generation, and once more by itself when
 * only the stream broke. Business and protocol errors are final until restart.
 */
export class RemoteStream {
  readonly #options: RemoteOptions;
  readonly #unsubscribe: () => void;
  #status: StreamStatus = { phase: 'waiting' };
  #generation = 0;
  /** The connection generation of the current or last opening. */
  #on: Generation | undefined;
  #abort = new AbortController();
  #physical: PhysicalStream | undefined;
  /** Whether the stream may reopen by itself on the same connection. */
  #mayReopen = true;
  /** What the consumer is still doing, over all openings. */
  #running = new Set<Promise<void>>();

  constructor(options: RemoteOptions) {
    this.#options = options;
    this.#unsubscribe = options.link.subscribe(() => this.#linkChanged());
    this.#linkChanged();
  }

  get status(): StreamStatus {
    return this.#status;
  }

  /** Replaces the current opening, also after a failure. */
  restart(): void {
    if (this.#status.phase === 'disposed') return;
    this.#stop();
    this.#mayReopen = true;
    this.#start(this.#options.link.generation);
  }

  /** Ends the stream. It resolves when its consumer does nothing any more. */
  async dispose(): Promise<void> {
    if (this.#status.phase !== 'disposed') {
      this.#unsubscribe();
      this.#stop();
      this.#set({ phase: 'disposed' });
    }
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }

  #linkChanged(): void {
    const now = this.#options.link.generation;
    if (this.#status.phase === 'failed' || this.#status.phase === 'disposed') return;
    if (now === this.#on && this.#status.phase === 'open') return;
    this.#stop();
    this.#mayReopen = true;
    this.#start(now);
  }

  #start(generation: Generation | undefined): void {
    this.#on = generation;
    if (!generation) {
      this.#set({ phase: 'waiting' });
      return;
    }
    const number = ++this.#generation;
    const abort = new AbortController();
    this.#abort = abort;
    this.#set({ phase: 'open' });

    // Items wait in order while the consumer is busy with an earlier one.
    let chain: Promise<void> | undefined;
    const current = (): boolean => this.#generation === number && !abort.signal.aborted;
    const take = (value: unknown): void | Promise<void> => {
      if (!current()) return;
      const item: Item = {
        value,
        generation: number,
        signal: abort.signal,
        accept: () => {
          if (!current()) return false;
          this.#mayReopen = true;
          return true;
        },
      };
      return this.#options.consume(item);
    };
    const after = (step: () => void | Promise<void>): void => {
      if (!chain) {
        // At once when nothing is going on, so that what arrived in one message
        // is shown in one step.
        try {
          const result = step();
          if (!result) return;
          chain = result;
        } catch (thrown) {
          this.#broke(number, thrown);
          return;
        }
      } else {
        chain = chain.then(step);
      }
      const mine: Promise<void> = chain.catch((thrown: unknown) => this.#broke(number, thrown)).finally(() => {
        this.#running.delete(mine);
        if (chain === mine) chain = undefined;
      });
      chain = mine;
      this.#running.add(mine);
    };

    this.#physical = generation.carrier.open(this.#options.name, this.#options.args, {
      item: (value) => after(() => take(value)),
      end: () => after(() => this.#broke(number, new CarrierError('The stream ended.'))),
      error: (error) => after(() => this.#broke(number, error)),
    });
  }

  /** Ends the current opening without a word to the consumer. */
  #stop(): void {
    this.#abort.abort(new CarrierError('The stream was replaced.'));
    this.#physical?.cancel();
    this.#physical = undefined;
  }

  #broke(number: number, thrown: unknown): void {
    if (this.#generation !== number || this.#abort.signal.aborted) return;
    this.#stop();
    const carrier = thrown instanceof CarrierError || (thrown instanceof ApiError && passing.has(thrown.code));
    if (!carrier) {
      const final = thrown instanceof ApiError || thrown instanceof ProtocolError ? thrown : new ProtocolError(String(thrown));
      this.#set({ phase: 'failed', error: final });
      return;
    }
    const now = this.#options.link.generation;
    if (now && now === this.#on && this.#mayReopen) {
      this.#mayReopen = false;
      this.#start(now);
      return;
    }
    // Waits for the next generation; when it is already there, the link's
    // notice of it has been or will be acted on.
    if (now !== this.#on) this.#linkChanged();
    else this.#set({ phase: 'waiting' });
  }

  #set(status: StreamStatus): void {
    if (status.phase === this.#status.phase && status.phase !== 'failed') return;
    this.#status = status;
    this.#options.onStatus?.(status);
  }
}
