import { SvelteMap } from 'svelte/reactivity';
import type { Api } from '../wire/api';
import { chatsItem } from '../wire/decode';
import { asApiError, type ApiError } from '../wire/errors';
import type { Link } from '../wire/link';
import { SnapshotStream } from '../wire/snapshot';
import type { Chat, ChatsItem, UpdateRequest } from '../wire/types';

/** How long archiving can be taken back, in milliseconds. */
export const UNDO_TIME = 5_000;

/** A change of a chat whose request is still going. */
interface Wish {
  readonly change: UpdateRequest;
  readonly number: number;
}

/** Every chat's list row. */
export class Chats {
  readonly #api: Api;
  readonly #stream: SnapshotStream<ChatsItem, Map<string, Chat>>;
  /** What the server said, with the changes of this page that are on their way. */
  readonly map = new SvelteMap<string, Chat>();
  /** Ids that were deleted. A late result cannot bring one back. */
  readonly #deleted = new Set<string>();
  readonly #wishes = new Map<string, Wish[]>();
  #server = new Map<string, Chat>();
  #counter = 0;
  /** Whether a list has been seen at all. */
  loaded = $state(false);
  /** Whether the list is of the current connection. */
  fresh = $state(false);
  error = $state.raw<ApiError | undefined>();
  /** The chat that was archived last, while that can be taken back. */
  undo = $state.raw<{ chatId: string; title: string } | undefined>();
  #undoTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(link: Link, api: Api) {
    this.#api = api;
    this.#stream = new SnapshotStream({
      link,
      name: 'chats.list',
      args: {},
      decode: chatsItem,
      begin: (item) => new Map(item.chats.map((c) => [c.id, c])),
      apply: (state, item) => {
        if (item.type === 'upsert') state.set(item.chat.id, item.chat);
        else {
          state.delete(item.chatId);
          this.#deleted.add(item.chatId);
        }
        return state;
      },
      onState: (state) => {
        const whole = state !== this.#server;
        this.#server = state;
        this.#show(whole);
        this.loaded = true;
      },
      onFresh: (fresh) => (this.fresh = fresh),
      onStatus: (status) => (this.error = status.phase === 'failed' ? asApiError(status.error) : undefined),
    });
  }

  get(id: string): Chat | undefined {
    return this.map.get(id);
  }

  /** Whether the chat is known to be gone. */
  isDeleted(id: string): boolean {
    return this.#deleted.has(id);
  }

  retry(): void {
    this.#stream.restart();
  }

  dispose(): Promise<void> {
    clearTimeout(this.#undoTimer);
    return this.#stream.dispose();
  }

  /** Adds what a request answered, unless it is gone by now. */
  add(chat: Chat): void {
    if (this.#deleted.has(chat.id)) return;
    this.#server.set(chat.id, chat);
    this.#showOne(chat.id);
  }

  /** Changes a chat: shown at once, and taken back when the server refuses. */
  async update(id: string, change: UpdateRequest): Promise<void> {
    const wish: Wish = { change, number: ++this.#counter };
    this.#wishes.set(id, [...(this.#wishes.get(id) ?? []), wish]);
    this.#showOne(id);
    try {
      const chat = await this.#api.update(id, change);
      this.#forget(id, wish);
      this.add(chat);
    } catch (thrown) {
      this.#forget(id, wish);
      this.#showOne(id);
      throw thrown;
    }
  }

  /** Archives a chat, with some seconds to take it back. */
  async archive(id: string): Promise<void> {
    const title = this.map.get(id)?.title ?? '';
    await this.update(id, { archived: true });
    clearTimeout(this.#undoTimer);
    this.undo = { chatId: id, title };
    this.#undoTimer = setTimeout(() => (this.undo = undefined), UNDO_TIME);
  }

  async takeBack(): Promise<void> {
    const undo = this.undo;
    if (!undo) return;
    clearTimeout(this.#undoTimer);
    this.undo = undefined;
    await this.update(undo.chatId, { archived: false });
  }

  /** Deletes a chat. From now on its id never comes back. */
  async remove(id: string): Promise<void> {
    await this.#api.remove(id);
    this.#deleted.add(id);
    this.#server.delete(id);
    this.map.delete(id);
  }

  #forget(id: string, wish: Wish): void {
    const left = (this.#wishes.get(id) ?? []).filter((w) => w !== wish);
    if (left.length > 0) this.#wishes.set(id, left);
    else this.#wishes.delete(id);
  }

  /** Shows the server's list; whole says that it is another one. */
  #show(whole: boolean): void {
    if (whole) for (const id of this.map.keys()) if (!this.#server.has(id)) this.map.delete(id);
    for (const id of whole ? this.#server.keys() : new Set([...this.#server.keys(), ...this.map.keys()])) this.#showOne(id);
  }

  #showOne(id: string): void {
    const chat = this.#server.get(id);
    if (!chat || this.#deleted.has(id)) {
      this.map.delete(id);
      return;
    }
    const wishes = this.#wishes.get(id);
    const shown = wishes ? wishes.reduce((c, w) => ({ ...c, ...w.change }), chat) : chat;
    if (this.map.get(id) !== shown) this.map.set(id, shown);
  }
}
