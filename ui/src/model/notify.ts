// When something is worth a notification of the system.

/** One notification. A later one with the same tag replaces it. */
export interface Note {
  readonly tag: string;
  readonly title: string;
  readonly body: string;
  readonly chatId?: string;
}

export interface NotifierOptions {
  show(note: Note): void;
  withdraw(tag: string): void;
  /** Whether a person is at this page: it is in front and had input within PRESENT. */
  present(): boolean;
  /** Whether the page can be seen at all. */
  visible(): boolean;
  /** Whether the chat is in front of the person. */
  lookingAt(chatId: string): boolean;
  now?(): number;
}

/** Input within this time means that a person is there, in milliseconds. */
export const PRESENT = 60_000;
/** How long an open request waits for somebody who can see it. */
export const ASK_DELAY = 5_000;
/** A run shorter than this ends without a notification. */
export const LONG_RUN = 30_000;
/** How long a finished chat has to stay finished. */
export const DWELL = 5_000;
/** The least time between two notifications of the end of runs of one chat. */
export const COOLDOWN = 60_000;
/** More than MANY within MANY_WINDOW become one. */
export const MANY = 3;
export const MANY_WINDOW = 10_000;

const MANY_TAG = 'many';

/** Decides what is shown, when, and what is taken back. */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #asked = new Map<string, ReturnType<typeof setTimeout> | undefined>();
  readonly #dwelling = new Map<string, ReturnType<typeof setTimeout>>();
  readonly #ended = new Map<string, number>();
  /** What was shown lately: when, and of which chat. */
  #recent: { at: number; tag: string; chatId: string }[] = [];
  #shown = new Set<string>();

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /** A request is open. At once when nobody can see it, else after ASK_DELAY unless somebody is there. */
  asked(occurrence: string, chatId: string, title: string, body: string): void {
    const tag = askTag(occurrence);
    if (this.#asked.has(tag)) return;
    const show = (): void => {
      this.#asked.set(tag, undefined);
      if (!this.#options.present()) this.#show({ tag, title, body, chatId });
    };
    if (!this.#options.visible()) {
      this.#asked.set(tag, undefined);
      show();
    } else {
      this.#asked.set(tag, setTimeout(show, ASK_DELAY));
    }
  }

  /** A request is no longer open, whoever settled it. */
  settled(occurrence: string): void {
    const tag = askTag(occurrence);
    clearTimeout(this.#asked.get(tag));
    if (this.#asked.delete(tag)) this.#withdraw(tag);
  }

  failed(chatId: string, title: string, body: string): void {
    if (this.#options.present() && this.#options.lookingAt(chatId)) return;
    this.#end(chatId, title, body);
  }

  finished(chatId: string, durationMs: number, title: string, body: string): void {
    if (durationMs < LONG_RUN) return;
    this.started(chatId);
    this.#dwelling.set(
      chatId,
      setTimeout(() => {
        this.#dwelling.delete(chatId);
        if (!(this.#options.present() && this.#options.lookingAt(chatId))) this.#end(chatId, title, body);
      }, DWELL),
    );
  }

  /** The chat goes on: what it had finished is not the end. */
  started(chatId: string): void {
    clearTimeout(this.#dwelling.get(chatId));
    this.#dwelling.delete(chatId);
  }

  /** The person looks at the chat now. */
  seen(chatId: string): void {
    this.#withdraw(endTag(chatId));
  }

  dispose(): void {
    for (const timer of [...this.#asked.values(), ...this.#dwelling.values()]) clearTimeout(timer);
  }

  #end(chatId: string, title: string, body: string): void {
    const now = this.#now();
    if (now - (this.#ended.get(chatId) ?? -Infinity) < COOLDOWN) return;
    this.#ended.set(chatId, now);
    this.#show({ tag: endTag(chatId), title, body, chatId });
  }

  #show(note: Note & { chatId: string }): void {
    const now = this.#now();
    this.#recent = [...this.#recent.filter((r) => now - r.at < MANY_WINDOW && r.tag !== note.tag), { at: now, tag: note.tag, chatId: note.chatId }];
    if (this.#recent.length <= MANY) {
      this.#shown.add(note.tag);
      this.#options.show(note);
      return;
    }
    for (const { tag } of this.#recent) this.#withdraw(tag);
    const chats = new Set(this.#recent.map((r) => r.chatId)).size;
    this.#shown.add(MANY_TAG);
    this.#options.show({ tag: MANY_TAG, title: chats === 1 ? '1 chat needs you' : `${chats} chats need you`, body: '' });
  }

  #withdraw(tag: string): void {
    if (this.#shown.delete(tag)) this.#options.withdraw(tag);
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }
}

const askTag = (occurrence: string): string => `ask ${occurrence}`;
const endTag = (chatId: string): string => `end ${chatId}`;
