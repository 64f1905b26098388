import type { Api } from '../wire/api';
import { asApiError, type ApiError } from '../wire/errors';
import type { Settings as ServerSettings } from '../wire/types';
import { isObject, readJson, type Store } from './storage';

/** What this browser prefers. */
export interface Preferences {
  theme: 'system' | 'light' | 'dark';
  /** Chats of one line in the sidebar. */
  compact: boolean;
  groupBy: 'folder' | 'project' | 'activity';
  /** What Enter does in the composer. */
  enterSends: boolean;
  /** Whether keys without a modifier do something in the transcript and on cards. */
  singleKeys: boolean;
  sidebarWidth: number;
  sidebarOpen: boolean;
  /** What a screen reader is told when a run ends. */
  speak: 'sentence' | 'off';
  notify: boolean;
  /** Whether notifications hold code and commands. */
  notifyCode: boolean;
}

export const SIDEBAR = { min: 220, max: 420, usual: 280 } as const;

export const defaults: Preferences = {
  theme: 'system',
  compact: false,
  groupBy: 'folder',
  enterSends: true,
  singleKeys: true,
  sidebarWidth: SIDEBAR.usual,
  sidebarOpen: true,
  speak: 'sentence',
  notify: false,
  notifyCode: false,
};

const KEY = 'preferences';

/** The preferences of this browser and the settings of the server. */
export class Settings {
  readonly #store: Store;
  readonly #api: Api;
  prefs = $state<Preferences>({ ...defaults });
  server = $state.raw<ServerSettings | undefined>();
  error = $state.raw<ApiError | undefined>();
  loading = $state(false);

  constructor(store: Store, api: Api) {
    this.#store = store;
    this.#api = api;
    const kept = readJson(store, KEY, isObject) ?? {};
    for (const name of Object.keys(defaults) as (keyof Preferences)[]) {
      if (typeof kept[name] === typeof defaults[name]) Object.assign(this.prefs, { [name]: kept[name] });
    }
  }

  set<K extends keyof Preferences>(name: K, value: Preferences[K]): void {
    this.prefs[name] = value;
    this.#store.set(KEY, JSON.stringify(this.prefs));
  }

  async load(): Promise<void> {
    this.loading = true;
    try {
      this.server = await this.#api.settings();
      this.error = undefined;
    } catch (thrown) {
      this.error = asApiError(thrown);
    } finally {
      this.loading = false;
    }
  }

  /** Changes settings of the server: shown at once, taken back when it refuses. */
  async update(change: ServerSettings): Promise<void> {
    const before = this.server;
    this.server = { ...before, ...change };
    try {
      this.server = await this.#api.updateSettings(change);
    } catch (thrown) {
      this.server = before;
      throw thrown;
    }
  }
}
