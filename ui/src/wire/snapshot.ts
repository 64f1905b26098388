import { ProtocolError } from './errors';
import type { Link } from './link';
import { RemoteStream, type StreamStatus } from './remote';
import type { StreamName } from './types';

export interface SnapshotOptions<Item extends { type: string }, State> {
  link: Link;
  name: StreamName;
  args?: unknown;
  /** Reads an item; throws a ProtocolError for a bad one. */
  decode(value: unknown): Item;
  /** Makes the state of a snapshot. It must not touch the state before. */
  begin(snapshot: Extract<Item, { type: 'snapshot' }>): State;
  /** Applies a delta; it may change the state in place or return another. */
  apply(state: State, delta: Exclude<Item, { type: 'snapshot' }>): State;
  /** Called after every change of the state. */
  onState(state: State): void;
  /** Called when the state becomes one of an older generation, or current again. */
  onFresh?(fresh: boolean): void;
  onStatus?(status: StreamStatus): void;
}

/**
 * Mirrors state of the server: each generation is exactly one snapshot, then
 * deltas. The state before stays until the new snapshot has been read whole.
 */
export class SnapshotStream<Item extends { type: string }, State> {
  readonly #remote: RemoteStream;
  readonly #options: SnapshotOptions<Item, State>;
  #state: State | undefined;
  /** The generation the state belongs to. */
  #generation = 0;
  #fresh = false;

  constructor(options: SnapshotOptions<Item, State>) {
    this.#options = options;
    this.#remote = new RemoteStream({
      link: options.link,
      name: options.name,
      args: options.args,
      consume: (item) => {
        const decoded = options.decode(item.value);
        const first = item.generation !== this.#generation;
        if (isSnapshot(decoded) !== first) {
          throw new ProtocolError(first ? `${options.name} begins with a ${decoded.type}` : `${options.name} has a second snapshot`);
        }
        const next = isSnapshot(decoded)
          ? options.begin(decoded)
          : options.apply(this.#state as State, decoded as Exclude<Item, { type: 'snapshot' }>);
        if (!item.accept()) return;
        this.#generation = item.generation;
        this.#state = next;
        options.onState(next);
        this.#setFresh(true);
      },
      onStatus: (status) => {
        if (status.phase !== 'open') this.#setFresh(false);
        options.onStatus?.(status);
      },
    });
  }

  /** The newest state, undefined before the first snapshot. */
  get state(): State | undefined {
    return this.#state;
  }

  get status(): StreamStatus {
    return this.#remote.status;
  }

  restart(): void {
    this.#setFresh(false);
    this.#remote.restart();
  }

  dispose(): Promise<void> {
    return this.#remote.dispose();
  }

  #setFresh(fresh: boolean): void {
    if (fresh === this.#fresh) return;
    this.#fresh = fresh;
    this.#options.onFresh?.(fresh);
  }
}

function isSnapshot<Item extends { type: string }>(item: Item): item is Extract<Item, { type: 'snapshot' }> {
  return item.type === 'snapshot';
}
