// What the parts of an open chat share.

import { getContext, setContext } from 'svelte';
import type { Api } from '../wire/api';
import type { AttachmentRef, Chat } from '../wire/types';
import type { ChatSession } from './session.svelte';

export interface ChatView {
  readonly session: ChatSession;
  readonly api: Api;
  /** The newest known list row of the chat. */
  readonly chat: Chat | undefined;
  /** The name of the chat's executor. */
  readonly executor: string;
  /** Whether the transcript is only to be read. */
  readonly readOnly: boolean;
  /** Why nothing can be sent now. */
  readonly offline: string | undefined;
  /** Opens the transcript of a subagent. */
  openChild(childId: string, title: string): void;
  /** Puts the cursor into the composer. */
  focusComposer(): void;
  /** Puts a message back into the composer, before what is there. */
  restore(text: string, attachments: readonly (AttachmentRef & { size: number })[]): void;
}

const KEY = Symbol('chat');

export function provideView(view: ChatView): void {
  setContext(KEY, view);
}

export function useView(): ChatView {
  return getContext<ChatView>(KEY);
}
