import type { Api } from '../wire/api';
import { foldersItem } from '../wire/decode';
import { asApiError, type ApiError } from '../wire/errors';
import type { Link } from '../wire/link';
import { SnapshotStream } from '../wire/snapshot';
import type { Folder, FolderList, FoldersItem } from '../wire/types';

/** What the server said. */
interface Mirror {
  folders: Map<string, Folder>;
  order: string[];
  archived: Set<string>;
}

/** A change of this page whose request is still going. It says what the answer would be. */
type Wish = (folders: Folder[]) => Folder[];

/**
 * The folders in their order. The order frame of the server is authoritative; a
 * change of this page is shown at once, over whatever the server says, until
 * its request is answered. A deleted folder never comes back.
 */
export class Folders {
  readonly #api: Api;
  readonly #stream: SnapshotStream<FoldersItem, Mirror>;
  readonly #deleted = new Set<string>();
  #mirror: Mirror = { folders: new Map(), order: [], archived: new Set() };
  #wishes: Wish[] = [];

  /** The folders in order, as they are shown. */
  list = $state.raw<readonly Folder[]>([]);
  archived = $state.raw<ReadonlySet<string>>(new Set());
  loaded = $state(false);
  fresh = $state(false);
  error = $state.raw<ApiError | undefined>();

  constructor(link: Link, api: Api) {
    this.#api = api;
    this.#stream = new SnapshotStream<FoldersItem, Mirror>({
      link,
      name: 'folders.follow',
      args: {},
      decode: foldersItem,
      begin: (item) => ({
        folders: new Map(item.folders.map((f) => [f.id, f])),
        order: item.order,
        archived: new Set(item.archived),
      }),
      apply: (state, item) => {
        switch (item.type) {
          case 'upsert':
            state.folders.set(item.folder.id, item.folder);
            // A chat is in one folder: the newest word about it counts.
            for (const [id, f] of state.folders) {
              if (id !== item.folder.id && f.chatIds.some((c) => item.folder.chatIds.includes(c))) {
                state.folders.set(id, { ...f, chatIds: f.chatIds.filter((c) => !item.folder.chatIds.includes(c)) });
              }
            }
            break;
          case 'remove':
            state.folders.delete(item.id);
            this.#deleted.add(item.id);
            break;
          case 'archived':
            state.archived = new Set(item.archived);
            break;
        }
        if ('order' in item && item.order) state.order = item.order;
        return state;
      },
      onState: (state) => {
        this.#mirror = state;
        this.loaded = true;
        this.#show();
      },
      onFresh: (fresh) => (this.fresh = fresh),
      onStatus: (status) => (this.error = status.phase === 'failed' ? asApiError(status.error) : undefined),
    });
  }

  retry(): void {
    this.#stream.restart();
  }

  dispose(): Promise<void> {
    return this.#stream.dispose();
  }

  get(id: string): Folder | undefined {
    return this.list.find((f) => f.id === id);
  }

  /** The folder that a chat is in. */
  of(chatId: string): Folder | undefined {
    return this.list.find((f) => f.chatIds.includes(chatId));
  }

  async create(name: string): Promise<Folder> {
    const folder = await this.#api.createFolder({ name });
    this.#put(folder);
    return folder;
  }

  async rename(id: string, name: string): Promise<void> {
    await this.#during(edit(id, (f) => ({ ...f, name })), async () => this.#put(await this.#api.updateFolder(id, { name })));
  }

  async collapse(id: string, collapsed: boolean): Promise<void> {
    await this.#during(edit(id, (f) => ({ ...f, collapsed })), async () => this.#put(await this.#api.updateFolder(id, { collapsed })));
  }

  /** Deletes a folder; its chats stay, in no folder. */
  async remove(id: string): Promise<void> {
    await this.#during(
      (folders) => folders.filter((f) => f.id !== id),
      async () => {
        const list = await this.#api.deleteFolder(id);
        this.#deleted.add(id);
        this.#replace(list);
      },
    );
  }

  /** Moves a folder before another, or to the end. */
  async order(id: string, before: string | undefined): Promise<void> {
    const wish: Wish = (folders) => {
      const moved = folders.find((f) => f.id === id);
      if (!moved || id === before) return folders;
      const rest = folders.filter((f) => f.id !== id);
      const at = before === undefined ? rest.length : rest.findIndex((f) => f.id === before);
      return rest.toSpliced(at < 0 ? rest.length : at, 0, moved);
    };
    await this.#during(wish, async () => this.#replace(await this.#api.orderFolders({ order: this.list.map((f) => f.id) })));
  }

  /** Moves a chat into a folder, or into none. Position counts without the chat itself. */
  async move(chatId: string, folderId: string | undefined, position?: number): Promise<void> {
    const wish: Wish = (folders) =>
      folders.map((f) => {
        const rest = f.chatIds.filter((c) => c !== chatId);
        if (f.id !== folderId) return rest.length === f.chatIds.length ? f : { ...f, chatIds: rest };
        return { ...f, chatIds: rest.toSpliced(position ?? rest.length, 0, chatId) };
      });
    const body = { folderId: folderId ?? null, ...(position !== undefined && { position }) };
    await this.#during(wish, async () => this.#replace(await this.#api.moveChat(chatId, body)));
  }

  /** Shows the wish while the request goes; an answer or a failure ends it. */
  async #during(wish: Wish, request: () => Promise<void>): Promise<void> {
    this.#wishes = [...this.#wishes, wish];
    this.#show();
    try {
      await request();
    } finally {
      this.#wishes = this.#wishes.filter((w) => w !== wish);
      this.#show();
    }
  }

  #put(folder: Folder): void {
    if (this.#deleted.has(folder.id)) return;
    this.#mirror.folders.set(folder.id, folder);
    if (!this.#mirror.order.includes(folder.id)) this.#mirror.order = [...this.#mirror.order, folder.id];
    this.#show();
  }

  #replace(list: FolderList): void {
    this.#mirror.folders = new Map(list.folders.map((f) => [f.id, f]));
    this.#mirror.order = list.folders.map((f) => f.id);
    this.#mirror.archived = new Set(list.archived);
    this.#show();
  }

  #show(): void {
    const { folders, order, archived } = this.#mirror;
    const known = order.map((id) => folders.get(id)).filter((f) => f !== undefined);
    // A folder that the order does not name yet is at the end until it does.
    const rest = [...folders.values()].filter((f) => !order.includes(f.id));
    const all = [...known, ...rest].filter((f) => !this.#deleted.has(f.id));
    this.list = this.#wishes.reduce((list, wish) => wish(list), all);
    this.archived = archived;
  }
}

function edit(id: string, f: (folder: Folder) => Folder): Wish {
  return (folders) => folders.map((each) => (each.id === id ? f(each) : each));
}
