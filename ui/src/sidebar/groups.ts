import type { Chat, Folder } from '../wire/types';

export type GroupBy = 'folder' | 'project' | 'activity';

/** One line of the list. */
export type Entry =
  | { readonly kind: 'group'; readonly key: string; readonly title: string; readonly detail?: string; readonly count: number; readonly folder?: Folder; readonly collapsed: boolean }
  | { readonly kind: 'chat'; readonly key: string; readonly chat: Chat; readonly folderId?: string; readonly position: number };

/** What the list is narrowed to. */
export interface Filter {
  readonly text: string;
  readonly only: 'all' | 'needs-you' | 'running' | 'unread' | 'archived';
}

export const everything: Filter = { text: '', only: 'all' };

export interface ListInput {
  readonly chats: Iterable<Chat>;
  readonly folders: readonly Folder[];
  readonly archived: ReadonlySet<string>;
  readonly by: GroupBy;
  readonly filter: Filter;
  /** Groups of projects and times that are closed, by key. */
  readonly closed: ReadonlySet<string>;
  readonly now: number;
  needsYou(chat: Chat): boolean;
  running(chat: Chat): boolean;
}

const DAY = 24 * 60 * 60_000;

const newestFirst = (a: Chat, b: Chat): number => b.lastActivity - a.lastActivity || (a.id < b.id ? -1 : 1);

/** The list in the order it is shown: what is pinned, then the groups. */
export function arrange(input: ListInput): Entry[] {
  const { filter, folders } = input;
  const chats = [...input.chats].filter((c) => matches(c, input)).sort(newestFirst);
  const narrowed = filter.text.trim() !== '' || filter.only !== 'all';
  const entries: Entry[] = [];

  const add = (key: string, title: string, members: Chat[], options: { detail?: string; folder?: Folder } = {}): void => {
    const collapsed = !narrowed && (options.folder ? (options.folder.collapsed ?? false) : input.closed.has(key));
    entries.push({ kind: 'group', key, title, count: members.length, collapsed, ...options });
    if (collapsed) return;
    members.forEach((chat, position) => entries.push({ kind: 'chat', key: `${key} ${chat.id}`, chat, position, ...(options.folder && { folderId: options.folder.id }) }));
  };
  const loose = (members: Chat[]): void => {
    members.forEach((chat, position) => entries.push({ kind: 'chat', key: chat.id, chat, position }));
  };

  if (filter.only === 'archived') {
    loose(chats);
    return entries;
  }
  const pinned = chats.filter((c) => c.pinned);
  const rest = chats.filter((c) => !c.pinned);
  if (pinned.length > 0) add('pinned', 'Pinned', pinned);

  switch (input.by) {
    case 'folder': {
      const byId = new Map(rest.map((c) => [c.id, c]));
      const placed = new Set<string>();
      for (const folder of folders) {
        const members = folder.chatIds.map((id) => byId.get(id)).filter((c) => c !== undefined);
        for (const c of members) placed.add(c.id);
        if (members.length > 0 || !narrowed) add(`folder ${folder.id}`, folder.name, members, { folder });
      }
      const others = rest.filter((c) => !placed.has(c.id));
      if (entries.length === 0) loose(others);
      else if (others.length > 0) add('loose', folders.length > 0 ? 'No folder' : 'Chats', others);
      break;
    }
    case 'project': {
      const projects = group(rest, (c) => `${c.executorId} ${c.projectPath}`);
      const names = group(projects.values(), (members) => baseName(members[0]!.projectPath));
      for (const [key, members] of projects) {
        const path = members[0]!.projectPath;
        const ambiguous = (names.get(baseName(path))?.length ?? 0) > 1;
        add(`project ${key}`, baseName(path) || 'No project', members, ambiguous ? { detail: path } : {});
      }
      break;
    }
    case 'activity': {
      const midnight = new Date(input.now).setHours(0, 0, 0, 0);
      const ages: [string, (c: Chat) => boolean][] = [
        ['Today', (c) => c.lastActivity >= midnight],
        ['Yesterday', (c) => c.lastActivity >= midnight - DAY],
        ['This week', (c) => c.lastActivity >= midnight - 6 * DAY],
        ['Earlier', () => true],
      ];
      let left = rest;
      for (const [title, is] of ages) {
        const members = left.filter(is);
        left = left.filter((c) => !is(c));
        if (members.length > 0) add(`age ${title}`, title, members);
      }
    }
  }
  return entries;
}

function matches(chat: Chat, input: ListInput): boolean {
  const { filter, archived } = input;
  const isArchived = chat.archived || archived.has(chat.id);
  if (isArchived !== (filter.only === 'archived')) return false;
  if (filter.only === 'needs-you' && !input.needsYou(chat)) return false;
  if (filter.only === 'running' && !input.running(chat)) return false;
  if (filter.only === 'unread' && !chat.unread) return false;
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const hay = [chat.title, chat.projectPath, chat.agent, chat.model ?? '', chat.executorId, ...chat.tags].join('\n').toLowerCase();
  return words.every((w) => hay.includes(w));
}

function group<T>(items: Iterable<T>, by: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const members = groups.get(by(item));
    if (members) members.push(item);
    else groups.set(by(item), [item]);
  }
  return groups;
}

/** The last part of a path. */
export function baseName(path: string): string {
  return path.replace(/\/+$/, '').split('/').pop() ?? path;
}
