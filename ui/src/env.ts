// What the browser gives the application.

import { dialWebSocket } from './wire/websocket';
import { App } from './model/app.svelte';
import type { Draft } from './model/drafts';
import type { Note } from './model/notify';
import type { Message } from './model/outbox.svelte';
import { browserStore, indexedStore } from './model/storage';

/** Makes the application of this page and ties it to the browser's events. */
export function createApp(): App {
  const base = new URL('api/v1/', document.baseURI);
  const mux = new URL('mux', base);
  mux.protocol = base.protocol === 'https:' ? 'wss:' : 'ws:';
  let lastInput = Date.now();
  const app = new App({
    base: base.href,
    dial: (signal) => dialWebSocket(mux.href, signal),
    store: browserStore(),
    drafts: indexedStore<Draft>('drafts'),
    outbox: indexedStore<Message>('outbox'),
    mac: /Mac|iPhone|iPad/.test(navigator.platform),
    showNote: (note) => void showNote(note),
    withdrawNote: (tag) => void withdrawNote(tag),
    visible: () => document.visibilityState === 'visible' && document.hasFocus(),
    lastInput: () => lastInput,
  });
  for (const type of ['pointerdown', 'keydown', 'wheel', 'touchstart']) {
    window.addEventListener(type, () => (lastInput = Date.now()), { passive: true, capture: true });
  }
  window.addEventListener('online', () => app.link.setOnline(true));
  window.addEventListener('offline', () => app.link.setOnline(false));
  document.addEventListener('visibilitychange', () => {
    app.link.setVisible(document.visibilityState === 'visible');
    if (document.visibilityState === 'hidden') void app.drafts.flush();
  });
  window.addEventListener('pagehide', () => void app.drafts.flush());
  navigator.serviceWorker?.addEventListener('message', (event: MessageEvent<unknown>) => {
    const data = event.data as { type?: unknown; chatId?: unknown } | null;
    if (data?.type === 'open' && typeof data.chatId === 'string') app.open({ kind: 'chat', chatId: data.chatId }, { passing: true });
  });
  return app;
}

/** Makes the shell work without a network, where the browser allows it. */
export async function registerWorker(): Promise<void> {
  if (!('serviceWorker' in navigator) || !window.isSecureContext) return;
  try {
    await navigator.serviceWorker.register(workerAddress());
  } catch {
    // Private windows and some policies refuse; nothing else depends on it.
  }
}

/** What the DOM library of TypeScript does not know yet. */
interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string };
}

/** The address of the worker, in the form that the page's policy asks for: this one and no other. */
function workerAddress(): string {
  const url = new URL('sw.js', document.baseURI).href;
  const types = (window as { trustedTypes?: TrustedTypes }).trustedTypes;
  if (!types) return url;
  const policy = types.createPolicy('garcon-worker', {
    createScriptURL: (wanted) => {
      if (wanted !== url) throw new TypeError('not the address of the worker');
      return wanted;
    },
  });
  return policy.createScriptURL(url);
}

async function worker(): Promise<ServiceWorkerRegistration | undefined> {
  return navigator.serviceWorker?.getRegistration();
}

/** Shows a notification. It does nothing without the person's permission. */
export async function showNote(note: Note): Promise<void> {
  if (!('Notification' in window) || Notification.permission !== 'granted') return;
  const registration = await worker();
  const options = { tag: note.tag, body: note.body, data: { chatId: note.chatId }, icon: new URL('icon-192.png', document.baseURI).href };
  if (registration) await registration.showNotification(note.title, options);
  else new Notification(note.title, options);
}

async function withdrawNote(tag: string): Promise<void> {
  const registration = await worker();
  for (const note of (await registration?.getNotifications({ tag })) ?? []) note.close();
}

/** Why notifications are not possible here; undefined when they are. */
export function noteProblem(): string | undefined {
  if (!window.isSecureContext) return 'This page came without HTTPS, so the browser shows no notifications.';
  if (!('Notification' in window)) return 'This browser shows notifications only for an installed app. Add garcon to the home screen first.';
  if (Notification.permission === 'denied') return 'This browser blocks notifications of this page. Allow them in its site settings.';
  return undefined;
}
