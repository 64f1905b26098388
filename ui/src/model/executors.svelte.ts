import { SvelteMap } from 'svelte/reactivity';
import { executorsItem } from '../wire/decode';
import { asApiError, type ApiError } from '../wire/errors';
import type { Link } from '../wire/link';
import { SnapshotStream } from '../wire/snapshot';
import type { Executor, ExecutorsItem } from '../wire/types';

/** The executors and whether they can be reached. */
export class Executors {
  readonly #stream: SnapshotStream<ExecutorsItem, Map<string, Executor>>;
  readonly map = new SvelteMap<string, Executor>();
  /** When an executor was last seen to become unreachable, in Unix milliseconds. */
  readonly awaySince = new SvelteMap<string, number>();
  loaded = $state(false);
  error = $state.raw<ApiError | undefined>();
  readonly list: readonly Executor[] = $derived([...this.map.values()]);
  readonly ready: number = $derived(this.list.filter((e) => e.availability === 'ready').length);

  constructor(link: Link) {
    this.#stream = new SnapshotStream<ExecutorsItem, Map<string, Executor>>({
      link,
      name: 'executors.follow',
      args: {},
      decode: executorsItem,
      begin: (item) => new Map(item.executors.map((e) => [e.id, e])),
      apply: (state, item) => {
        if (item.type === 'upsert') state.set(item.executor.id, item.executor);
        else state.delete(item.executorId);
        return state;
      },
      onState: (state) => {
        for (const id of this.map.keys()) if (!state.has(id)) this.map.delete(id);
        for (const [id, executor] of state) {
          if (executor.availability === 'ready') this.awaySince.delete(id);
          else if (!this.awaySince.has(id)) this.awaySince.set(id, Date.now());
          if (this.map.get(id) !== executor) this.map.set(id, executor);
        }
        this.loaded = true;
      },
      onStatus: (status) => (this.error = status.phase === 'failed' ? asApiError(status.error) : undefined),
    });
  }

  /** The name people know; the id for one that is not listed. */
  label(id: string): string {
    return this.map.get(id)?.label || id;
  }

  retry(): void {
    this.#stream.restart();
  }

  dispose(): Promise<void> {
    return this.#stream.dispose();
  }
}
