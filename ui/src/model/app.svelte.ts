import { createContext } from 'svelte';
import { Api } from '../wire/api';
import { Connection, type ConnectionOptions } from '../wire/connection';
import { Http } from '../wire/http';
import type { Notification } from '../wire/types';
import { Catalog } from './catalog.svelte';
import { Chats } from './chats.svelte';
import { ConnectionStatus } from './connection.svelte';
import { Controls, type Need } from './control.svelte';
import { Drafts } from './drafts';
import { Executors } from './executors.svelte';
import { Folders } from './folders.svelte';
import { Keymap } from './keymap.svelte';
import { Notifier, PRESENT, type Note } from './notify';
import { Outbox, type Message } from './outbox.svelte';
import { Panes, type View } from './panes.svelte';
import { Session } from './session.svelte';
import { Settings } from './settings.svelte';
import type { Draft } from './drafts';
import type { LargeStore, Store } from './storage';

/** What the application needs of its surroundings. */
export interface Surroundings {
  /** Where the API is, with a slash at its end. */
  base: string;
  dial: ConnectionOptions['dial'];
  store: Store;
  drafts: LargeStore<Draft>;
  outbox: LargeStore<Message>;
  mac: boolean;
  fetch?: typeof fetch;
  showNote(note: Note): void;
  withdrawNote(tag: string): void;
  /** Whether the page is in front, and when it last had input (Unix milliseconds). */
  visible(): boolean;
  lastInput(): number;
}

/** A short message at the lower edge, such as what an action did. */
export interface Toast {
  readonly text: string;
  readonly error: boolean;
  readonly action?: { readonly label: string; readonly run: () => void };
}

/** How long a toast stays, in milliseconds; one with an action or an error stays longer. */
const TOAST_TIME = 4_000;
const TOAST_LONG = 8_000;

/** The layers that cover the application; one at a time. */
export type Layer = 'new-chat' | 'palette' | 'keyboard';

/** Everything that is true in this page, without a DOM. */
export class App {
  readonly api: Api;
  readonly http: Http;
  readonly link: Connection;
  readonly connection = new ConnectionStatus();
  readonly session: Session;
  readonly settings: Settings;
  readonly keymap: Keymap;
  readonly panes: Panes;
  readonly chats: Chats;
  readonly folders: Folders;
  readonly controls: Controls;
  readonly executors: Executors;
  readonly catalog: Catalog;
  readonly drafts: Drafts;
  readonly outbox: Outbox;
  readonly notifier: Notifier;

  layer = $state<Layer | undefined>();
  toast = $state.raw<Toast | undefined>();
  /** The request that "next that needs you" showed last, for its card to take the focus. */
  attention = $state.raw<{ chatId: string; occurrence: string; at: number } | undefined>();
  /** What the server reported last, for those who have to be told. */
  reported = $state.raw<Notification | undefined>();
  /** The chats as the sidebar lists them now; empty before it did. */
  listed = $state.raw<readonly string[]>([]);
  /** On a phone: whether the list is in front, or the chat. */
  listInFront = $state(true);
  #toastTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(around: Surroundings) {
    this.http = new Http({
      base: around.base,
      instance: () => this.link.generation?.serverInstanceId ?? this.connection.instance,
      onUnauthorized: () => this.link.signedOut(),
      ...(around.fetch && { fetch: around.fetch }),
    });
    this.api = new Api(this.http);
    this.session = new Session(this.api, () => this.link.connectNow());
    this.link = new Connection({
      dial: around.dial,
      signedIn: (signal) => this.session.check(signal),
      onState: (state) => {
        this.connection.set(state);
        if (state.phase === 'signed-out') this.session.ended();
        if (state.phase === 'connected') void this.#connected();
      },
      onEvent: (item) => {
        if (item.type === 'emit') this.#notified(item.event);
      },
    });
    this.settings = new Settings(around.store, this.api);
    this.keymap = new Keymap(around.store, around.mac);
    this.panes = new Panes(around.store);
    this.chats = new Chats(this.link, this.api);
    this.folders = new Folders(this.link, this.api);
    this.controls = new Controls(this.link);
    this.executors = new Executors(this.link);
    this.catalog = new Catalog(this.api);
    this.drafts = new Drafts(around.drafts);
    this.outbox = new Outbox({ api: this.api, store: around.outbox, instance: () => this.link.generation?.serverInstanceId });
    this.notifier = new Notifier({
      show: (note) => {
        if (this.settings.prefs.notify) around.showNote(note);
      },
      withdraw: around.withdrawNote,
      present: () => around.visible() && Date.now() - around.lastInput() < PRESENT,
      visible: around.visible,
      lookingAt: (chatId) => around.visible() && this.panes.all.some((p) => p.tabs.some((t) => t.id === p.front && t.view.kind === 'chat' && t.view.chatId === chatId)),
    });
  }

  /** Signs in with a link when there is one, and connects when somebody is signed in. */
  async begin(secret?: string): Promise<void> {
    if (secret !== undefined) {
      // A used link is no reason to stop somebody who is signed in already.
      if (!(await this.session.login({ secret }))) {
        const { error } = this.session;
        if (!(await this.session.load())) this.session.error = error;
      }
    } else {
      await this.session.load();
    }
    // The server could not be asked: the connection keeps trying.
    if (this.session.state === 'unknown') this.link.connectNow();
  }

  /** Shows a view. passing: the next passing view takes its place. */
  open(view: View, options: { passing?: boolean; pane?: string } = {}): void {
    this.panes.open(view, options);
    this.listInFront = false;
    if (view.kind === 'chat') this.notifier.seen(view.chatId);
  }

  /** Goes to the next open request of any chat. */
  nextNeed(): Need | undefined {
    const need = this.controls.next(this.attention?.occurrence);
    if (!need) return undefined;
    this.open({ kind: 'chat', chatId: need.chatId }, { passing: true });
    this.attention = { chatId: need.chatId, occurrence: need.pending.occurrence, at: Date.now() };
    return need;
  }

  say(text: string, options: { error?: boolean; action?: Toast['action'] } = {}): void {
    clearTimeout(this.#toastTimer);
    const long = options.error || options.action;
    this.toast = { text, error: options.error ?? false, ...(options.action && { action: options.action }) };
    this.#toastTimer = setTimeout(() => (this.toast = undefined), long ? TOAST_LONG : TOAST_TIME);
  }

  async logout(): Promise<void> {
    await this.session.logout();
    this.link.signedOut();
  }

  async dispose(): Promise<void> {
    clearTimeout(this.#toastTimer);
    this.notifier.dispose();
    this.connection.dispose();
    this.link.close();
    await this.drafts.flush();
    await Promise.all([this.chats.dispose(), this.folders.dispose(), this.controls.dispose(), this.executors.dispose()]);
  }

  async #connected(): Promise<void> {
    if (this.session.state !== 'in') await this.session.load();
    await Promise.all([this.settings.server ? undefined : this.settings.load(), this.outbox.connected()]);
  }

  #notified(event: Notification): void {
    this.reported = event;
    const chat = this.chats.get(event.chatId);
    const title = chat?.title || event.title || 'A chat';
    switch (event.kind) {
      case 'run-finished':
        this.notifier.finished(event.chatId, event.durationMs ?? 0, title, this.settings.prefs.notifyCode ? (event.text ?? '') : 'Finished');
        return;
      case 'run-failed':
        this.notifier.failed(event.chatId, title, this.settings.prefs.notifyCode ? (event.text ?? '') : 'Failed');
        return;
      case 'asked':
        return; // what is open is known from the control stream
    }
  }
}

export const [useApp, provideApp] = createContext<App>();
