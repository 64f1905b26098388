// What the commands that work anywhere do.

import type { App } from './model/app.svelte';

/** Whether the focus is where people type. */
function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'));
}

/** The command of a key that works anywhere, undefined for none. */
export function commandOf(app: App, event: KeyboardEvent): string | undefined {
  const command = app.keymap.find(event, 'anywhere', app.settings.prefs.singleKeys);
  // Moving between chats leaves the text fields their own keys.
  if ((command === 'chat-previous' || command === 'chat-next') && typing(event.target)) return undefined;
  // A dialog is modal for keys too.
  if (app.layer !== undefined && command !== app.layer) return undefined;
  return command;
}

/** Runs a command; toggleSidebar depends on the layout. */
export function run(app: App, command: string, toggleSidebar: () => void): void {
  switch (command) {
    case 'needs-you':
      if (!app.nextNeed()) app.say('Nothing needs you.');
      return;
    case 'palette':
    case 'new-chat':
    case 'keyboard':
      app.layer = app.layer === command ? undefined : command;
      return;
    case 'sidebar':
      toggleSidebar();
      return;
    case 'settings':
      app.open({ kind: 'settings' });
      return;
    case 'split':
      app.panes.splitActive('right');
      return;
    case 'chat-previous':
      step(app, -1);
      return;
    case 'chat-next':
      step(app, 1);
      return;
    default: {
      const pane = /^pane-(\d)$/.exec(command)?.[1];
      const target = pane === undefined ? undefined : app.panes.all[Number(pane) - 1];
      if (target) app.panes.activate(target.id);
    }
  }
}

/** Opens the chat before or after the one in front, as the sidebar lists them. */
function step(app: App, by: number): void {
  const list = app.listed.length > 0 ? app.listed : [...app.chats.map.values()].filter((c) => !c.archived).sort((a, b) => b.lastActivity - a.lastActivity).map((c) => c.id);
  const view = app.panes.view;
  const at = view?.kind === 'chat' ? list.indexOf(view.chatId) : -1;
  const next = at < 0 ? list[0] : list[at + by];
  if (next) app.open({ kind: 'chat', chatId: next }, { passing: true });
}
