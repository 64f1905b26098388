import type { View } from './model/panes.svelte';

/** The fragment of the address that shows a view; '' for nothing. */
export function formatHash(view: View | undefined): string {
  switch (view?.kind) {
    case 'chat': {
      const child = view.child === undefined ? '' : `/${encodeURIComponent(view.child)}`;
      return `#/chat/${encodeURIComponent(view.chatId)}${child}`;
    }
    case 'agents':
      return '#/agents';
    case 'settings':
      return view.section ? `#/settings/${encodeURIComponent(view.section)}` : '#/settings';
    case undefined:
      return '';
  }
}

/** The view of a fragment; undefined for one that is none. */
export function parseHash(hash: string): View | undefined {
  if (!hash.startsWith('#/')) return undefined;
  let parts: string[];
  try {
    parts = hash.slice(2).split('/').map(decodeURIComponent);
  } catch {
    return undefined;
  }
  const [kind, first, second] = parts;
  if (kind === 'chat' && first) return { kind, chatId: first, ...(second && { child: second }) };
  if (kind === 'agents') return { kind };
  if (kind === 'settings') return { kind, ...(first && { section: first }) };
  return undefined;
}
