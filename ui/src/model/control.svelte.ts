import { SvelteMap } from 'svelte/reactivity';
import { controlItem } from '../wire/decode';
import { asApiError, type ApiError } from '../wire/errors';
import type { Link } from '../wire/link';
import { SnapshotStream } from '../wire/snapshot';
import type { Control, ControlItem, Pending } from '../wire/types';

/** One open request of any chat. */
export interface Need {
  readonly chatId: string;
  readonly pending: Pending;
}

/** The transient state of all live chats. */
export class Controls {
  readonly #stream: SnapshotStream<ControlItem, Map<string, Control>>;
  readonly map = new SvelteMap<string, Control>();
  /** Whether the state is of the current connection; otherwise phases are shown hollow. */
  fresh = $state(false);
  error = $state.raw<ApiError | undefined>();
  /** Every open request, the oldest first. */
  readonly needs: readonly Need[] = $derived.by(() =>
    [...this.map.values()]
      .flatMap((c) => c.pending.map((pending) => ({ chatId: c.chatId, pending })))
      .sort((a, b) => a.pending.since - b.pending.since),
  );

  constructor(link: Link) {
    this.#stream = new SnapshotStream<ControlItem, Map<string, Control>>({
      link,
      name: 'control.follow',
      args: {},
      decode: controlItem,
      begin: (item) => new Map(item.chats.map((c) => [c.chatId, c])),
      apply: (state, item) => {
        if (item.type === 'upsert') {
          const before = state.get(item.control.chatId);
          // Revisions grow within a server instance, and so within a generation.
          if (!before || item.control.revision >= before.revision) state.set(item.control.chatId, item.control);
        } else {
          state.delete(item.chatId);
        }
        return state;
      },
      onState: (state) => {
        for (const id of this.map.keys()) if (!state.has(id)) this.map.delete(id);
        for (const [id, control] of state) if (this.map.get(id) !== control) this.map.set(id, control);
      },
      onFresh: (fresh) => (this.fresh = fresh),
      onStatus: (status) => (this.error = status.phase === 'failed' ? asApiError(status.error) : undefined),
    });
  }

  get(chatId: string): Control | undefined {
    return this.map.get(chatId);
  }

  /** The request after the given one, going around; the first without one. */
  next(after?: string): Need | undefined {
    const at = this.needs.findIndex((n) => n.pending.occurrence === after);
    return this.needs[(at + 1) % Math.max(this.needs.length, 1)];
  }

  retry(): void {
    this.#stream.restart();
  }

  dispose(): Promise<void> {
    return this.#stream.dispose();
  }
}
