import type { AttachmentRef } from '../wire/types';
import type { LargeStore } from './storage';

/** What was typed and not sent. */
export interface Draft {
  text: string;
  attachments: (AttachmentRef & { size: number })[];
}

/** Typing is written to the disk this much later at the latest, in milliseconds. */
export const SAVE_DELAY = 300;

/**
 * The drafts of all chats. A draft is in memory at once and on the disk within
 * SAVE_DELAY, counted from the first change that is not there yet.
 */
export class Drafts {
  readonly #store: LargeStore<Draft>;
  readonly #drafts = new Map<string, Draft>();
  readonly #dirty = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Writes happen one after the other, so that the last one wins. */
  #writing: Promise<void> = Promise.resolve();
  /** Resolves when what is on the disk has been read. */
  readonly loaded: Promise<void>;

  constructor(store: LargeStore<Draft>) {
    this.#store = store;
    this.loaded = store.all().then(
      (stored) => {
        for (const [key, draft] of stored) if (!this.#drafts.has(key) && !this.#dirty.has(key)) this.#drafts.set(key, draft);
      },
      () => {},
    );
  }

  /** The draft of a key such as a chat id; undefined when there is none, or before loaded. */
  get(key: string): Draft | undefined {
    return this.#drafts.get(key);
  }

  /** Keeps a draft; an empty one is removed. */
  set(key: string, draft: Draft): void {
    if (draft.text === '' && draft.attachments.length === 0) this.#drafts.delete(key);
    else this.#drafts.set(key, draft);
    this.#dirty.add(key);
    this.#timer ??= setTimeout(() => void this.flush(), SAVE_DELAY);
  }

  remove(key: string): void {
    this.set(key, { text: '', attachments: [] });
  }

  /** Writes what is not on the disk yet; also when the page is hidden. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const keys = [...this.#dirty];
    this.#dirty.clear();
    if (keys.length === 0) return this.#writing;
    this.#writing = this.#writing.then(async () => {
      for (const key of keys) {
        const draft = this.#drafts.get(key);
        await (draft ? this.#store.set(key, draft) : this.#store.remove(key));
      }
    });
    return this.#writing;
  }
}
