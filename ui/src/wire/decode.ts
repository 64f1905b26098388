// Readers of documents. What arrives is unknown; a reader returns it as its
// type or throws a ProtocolError that names the place.

import { ProtocolError } from './errors';
import type {
  Chat, ChatsItem, Control, ControlItem, ErrorDocument, EventItem, Executor, ExecutorsItem, Folder,
  FoldersItem, FollowItem, Live, Page, Pending, Row, ServerFrame, Session,
} from './types';

type Members = Record<string, unknown>;

function fail(at: string, wanted: string): never {
  throw new ProtocolError(`${at} is not ${wanted}`);
}

function object(value: unknown, at: string): Members {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) fail(at, 'an object');
  return value as Members;
}

/** An object with only these members. */
function exact(value: unknown, at: string, ...names: string[]): Members {
  const o = object(value, at);
  for (const name of Object.keys(o)) if (!names.includes(name)) fail(`${at}.${name}`, 'a known member');
  return o;
}

function string(o: Members, name: string, at: string): string {
  const v = o[name];
  return typeof v === 'string' ? v : fail(`${at}.${name}`, 'a string');
}

function optional(o: Members, name: string, at: string): string | undefined {
  return o[name] === undefined ? undefined : string(o, name, at);
}

function integer(o: Members, name: string, at: string): number {
  const v = o[name];
  return typeof v === 'number' && Number.isSafeInteger(v) ? v : fail(`${at}.${name}`, 'an integer');
}

function boolean(o: Members, name: string, at: string): boolean {
  const v = o[name];
  return typeof v === 'boolean' ? v : fail(`${at}.${name}`, 'true or false');
}

/** A list; Go writes an absent one as null or leaves it out. */
function list<T>(o: Members, name: string, at: string, read: (v: unknown, at: string) => T): T[] {
  const v = o[name] ?? [];
  if (!Array.isArray(v)) fail(`${at}.${name}`, 'a list');
  return v.map((each, i) => read(each, `${at}.${name}[${i}]`));
}

function text(v: unknown, at: string): string {
  return typeof v === 'string' ? v : fail(at, 'a string');
}

function oneOf<const T extends string>(o: Members, name: string, at: string, ...values: T[]): T {
  const v = o[name];
  return values.includes(v as T) ? (v as T) : fail(`${at}.${name}`, values.join(' or '));
}

// ---- frames ------------------------------------------------------------------

export function errorDocument(value: unknown, at = 'error'): ErrorDocument {
  const o = object(value, at);
  const hint = optional(o, 'hint', at);
  const details = o['details'] === undefined || o['details'] === null ? undefined : object(o['details'], `${at}.details`);
  return { code: string(o, 'code', at), message: string(o, 'message', at), ...(hint !== undefined && { hint }), ...(details && { details }) };
}

export function serverFrame(value: unknown): ServerFrame {
  const at = 'frame';
  const type = oneOf(object(value, at), 'type', at, 'item', 'part', 'end', 'error');
  const members: Record<typeof type, string[]> = { item: ['value'], part: ['text', 'last'], end: [], error: ['error'] };
  const o = exact(value, at, 'type', 'stream', ...members[type]);
  const stream = integer(o, 'stream', at);
  if (stream < 0) fail(`${at}.stream`, 'a stream number');
  switch (type) {
    case 'item':
      if (!('value' in o)) fail(`${at}.value`, 'there');
      return { type, stream, value: o['value'] };
    case 'part':
      return { type, stream, text: o['text'] === undefined ? '' : string(o, 'text', at), last: o['last'] === undefined ? false : boolean(o, 'last', at) };
    case 'end':
      return { type, stream };
    case 'error':
      return { type, stream, error: errorDocument(o['error'], `${at}.error`) };
  }
}

// ---- documents -----------------------------------------------------------------

const phases = ['idle', 'accepted', 'preparing', 'running', 'waiting', 'reconnecting'] as const;

export function chat(value: unknown, at = 'chat'): Chat {
  const o = object(value, at);
  const state = object(o['state'], `${at}.state`);
  return {
    ...(o as unknown as Chat),
    id: string(o, 'id', at),
    title: string(o, 'title', at),
    tags: list(o, 'tags', at, text),
    pinned: boolean(o, 'pinned', at),
    archived: boolean(o, 'archived', at),
    executorId: string(o, 'executorId', at),
    agent: string(o, 'agent', at),
    projectPath: string(o, 'projectPath', at),
    createdAt: integer(o, 'createdAt', at),
    lastActivity: integer(o, 'lastActivity', at),
    unread: boolean(o, 'unread', at),
    state: { ...(state as unknown as Chat['state']), phase: oneOf(state, 'phase', `${at}.state`, ...phases) },
  };
}

const rowKinds: ReadonlySet<string> = new Set<Exclude<Row['kind'], 'opaque'>>([
  'user', 'assistant', 'reasoning', 'tool', 'tool-result', 'permission', 'permission-resolved', 'question',
  'question-resolved', 'run', 'compaction', 'handoff', 'subagent', 'notice', 'error', 'session',
]);

/** A row. A kind this version does not know becomes an opaque row. */
export function row(value: unknown, at = 'row'): Row {
  const o = object(value, at);
  const kind = string(o, 'kind', at);
  integer(o, 'ordinal', at);
  integer(o, 'time', at);
  if (!rowKinds.has(kind)) {
    return { ...(o as unknown as Row), kind: 'opaque', type: kind, members: o } as Row;
  }
  // Lists that Go may write as null, and that everybody reads.
  if (kind === 'permission') return { ...o, options: o['options'] ?? [], input: o['input'] ?? {} } as unknown as Row;
  if (kind === 'question') return { ...o, questions: o['questions'] ?? [] } as unknown as Row;
  if (kind === 'tool') return { ...o, input: o['input'] ?? {} } as unknown as Row;
  return o as unknown as Row;
}

function live(value: unknown, at: string): Live {
  const o = object(value, at);
  string(o, 'runId', at);
  string(o, 'partId', at);
  oneOf(o, 'kind', at, 'assistant', 'reasoning', 'tool', 'tool-result');
  integer(o, 'offset', at);
  string(o, 'text', at);
  return o as unknown as Live;
}

function pending(value: unknown, at: string): Pending {
  const o = object(value, at);
  const asked = row(o['row'], `${at}.row`);
  if (asked.kind !== 'permission' && asked.kind !== 'question') fail(`${at}.row`, 'a request');
  return {
    ...(o as unknown as Pending),
    occurrence: string(o, 'occurrence', at),
    runId: string(o, 'runId', at),
    controlId: string(o, 'controlId', at),
    kind: oneOf(o, 'kind', at, 'permission', 'question'),
    since: integer(o, 'since', at),
    row: asked,
  };
}

export function control(value: unknown, at = 'control'): Control {
  const o = object(value, at);
  const queue = object(o['queue'], `${at}.queue`);
  return {
    ...(o as unknown as Control),
    chatId: string(o, 'chatId', at),
    revision: integer(o, 'revision', at),
    phase: oneOf(o, 'phase', at, ...phases),
    queue: {
      ...(queue as unknown as Control['queue']),
      entries: list(queue, 'entries', `${at}.queue`, (v, w) => {
        const e = object(v, w);
        return { ...(e as unknown as Control['queue']['entries'][number]), id: string(e, 'id', w), prompt: string(e, 'prompt', w), revision: integer(e, 'revision', w) };
      }),
      paused: boolean(queue, 'paused', `${at}.queue`),
    },
    pending: list(o, 'pending', at, pending),
    jobs: list(o, 'jobs', at, (v, w) => {
      const j = object(v, w);
      return { ...(j as unknown as Control['jobs'][number]), id: string(j, 'id', w) };
    }),
  };
}

/** Who is signed in. Nothing less than a whole answer may sign somebody out. */
export function session(value: unknown, at = 'session'): Session {
  const o = object(value, at);
  return { ...(o as unknown as Session), signedIn: boolean(o, 'signedIn', at), passwordSet: boolean(o, 'passwordSet', at), noAuth: boolean(o, 'noAuth', at) };
}

export function folder(value: unknown, at = 'folder'): Folder {
  const o = object(value, at);
  return { ...(o as unknown as Folder), id: string(o, 'id', at), name: string(o, 'name', at), chatIds: list(o, 'chatIds', at, text) };
}

function executor(value: unknown, at: string): Executor {
  const o = object(value, at);
  return {
    ...(o as unknown as Executor),
    id: string(o, 'id', at),
    label: string(o, 'label', at),
    availability: oneOf(o, 'availability', at, 'ready', 'reconnecting', 'offline', 'disposed'),
  };
}

export function page(value: unknown, at = 'page'): Page {
  const o = object(value, at);
  return {
    chatId: string(o, 'chatId', at),
    view: string(o, 'view', at),
    through: integer(o, 'through', at),
    rows: list(o, 'rows', at, row),
    hasMore: boolean(o, 'hasMore', at),
  };
}

// ---- items of streams ------------------------------------------------------------

export function eventItem(value: unknown): EventItem {
  const at = '$events';
  const type = oneOf(object(value, at), 'type', at, 'ready', 'emit', 'waterfall', 'cancel');
  switch (type) {
    case 'ready': {
      const o = exact(value, at, 'type', 'clientId', 'host', 'serverInstanceId');
      const host = object(o['host'], `${at}.host`);
      string(host, 'version', `${at}.host`);
      integer(host, 'heartbeatMs', `${at}.host`);
      const clientId = string(o, 'clientId', at);
      const serverInstanceId = string(o, 'serverInstanceId', at);
      if (clientId === '' || serverInstanceId === '') fail(at, 'a complete ready item');
      return { type, clientId, serverInstanceId, host: host as unknown as (EventItem & { type: 'ready' })['host'] };
    }
    case 'emit': {
      const o = exact(value, at, 'type', 'event');
      const event = object(o['event'], `${at}.event`);
      string(event, 'kind', `${at}.event`);
      string(event, 'chatId', `${at}.event`);
      return { type, event: event as unknown as (EventItem & { type: 'emit' })['event'] };
    }
    case 'waterfall': {
      const o = exact(value, at, 'type', 'eventId', 'chatId', 'request');
      return { type, eventId: string(o, 'eventId', at), chatId: string(o, 'chatId', at), request: pending(o['request'], `${at}.request`) };
    }
    case 'cancel': {
      const o = exact(value, at, 'type', 'eventId', 'chatId', 'reason');
      const reason = o['reason'] === undefined ? undefined : oneOf(o, 'reason', at, 'RESOLVED', 'ASK_ABORTED', 'OUTCOME_UNKNOWN', 'OFFERED_AGAIN');
      return { type, eventId: string(o, 'eventId', at), ...(reason && { reason }) };
    }
  }
}

export function chatsItem(value: unknown): ChatsItem {
  const at = 'chats.list';
  const type = oneOf(object(value, at), 'type', at, 'snapshot', 'upsert', 'remove');
  switch (type) {
    case 'snapshot':
      return { type, chats: list(exact(value, at, 'type', 'chats'), 'chats', at, chat) };
    case 'upsert':
      return { type, chat: chat(exact(value, at, 'type', 'chat')['chat'], `${at}.chat`) };
    case 'remove':
      return { type, chatId: string(exact(value, at, 'type', 'chatId'), 'chatId', at) };
  }
}

export function controlItem(value: unknown): ControlItem {
  const at = 'control.follow';
  const type = oneOf(object(value, at), 'type', at, 'snapshot', 'upsert', 'remove');
  switch (type) {
    case 'snapshot':
      return { type, chats: list(exact(value, at, 'type', 'chats'), 'chats', at, control) };
    case 'upsert':
      return { type, control: control(exact(value, at, 'type', 'control')['control'], `${at}.control`) };
    case 'remove':
      return { type, chatId: string(exact(value, at, 'type', 'chatId'), 'chatId', at) };
  }
}

export function foldersItem(value: unknown): FoldersItem {
  const at = 'folders.follow';
  const type = oneOf(object(value, at), 'type', at, 'snapshot', 'upsert', 'remove', 'order', 'archived');
  const o = exact(value, at, 'type', 'folders', 'folder', 'id', 'order', 'archived');
  const order = o['order'] === undefined ? {} : { order: list(o, 'order', at, text) };
  switch (type) {
    case 'snapshot': {
      const folders = list(o, 'folders', at, folder);
      return { type, folders, order: order.order ?? folders.map((f) => f.id), archived: list(o, 'archived', at, text) };
    }
    case 'upsert':
      return { type, folder: folder(o['folder'], `${at}.folder`), ...order };
    case 'remove':
      return { type, id: string(o, 'id', at), ...order };
    case 'order':
      return { type, order: order.order ?? [] };
    case 'archived':
      return { type, archived: list(o, 'archived', at, text) };
  }
}

export function executorsItem(value: unknown): ExecutorsItem {
  const at = 'executors.follow';
  const type = oneOf(object(value, at), 'type', at, 'snapshot', 'upsert', 'remove');
  switch (type) {
    case 'snapshot':
      return { type, executors: list(exact(value, at, 'type', 'executors'), 'executors', at, executor) };
    case 'upsert':
      return { type, executor: executor(exact(value, at, 'type', 'executor')['executor'], `${at}.executor`) };
    case 'remove':
      return { type, executorId: string(exact(value, at, 'type', 'executorId'), 'executorId', at) };
  }
}

export function followItem(value: unknown): FollowItem {
  const at = 'chat.follow';
  const type = oneOf(object(value, at), 'type', at, 'snapshot', 'rows', 'live', 'header');
  const o = exact(value, at, 'type', 'view', 'header', 'cursor', 'rows', 'hasMore', 'live', 'ended');
  const cursor = integer(o, 'cursor', at);
  const header = o['header'] === undefined || o['header'] === null ? undefined : chat(o['header'], `${at}.header`);
  switch (type) {
    case 'snapshot':
      return {
        type, cursor, view: string(o, 'view', at), rows: list(o, 'rows', at, row), live: list(o, 'live', at, live),
        hasMore: o['hasMore'] === undefined ? false : boolean(o, 'hasMore', at), ...(header && { header }),
      };
    case 'rows':
      return { type, cursor, rows: list(o, 'rows', at, row), live: list(o, 'live', at, live), ended: list(o, 'ended', at, text) };
    case 'live':
      return { type, cursor, live: list(o, 'live', at, live), ended: list(o, 'ended', at, text) };
    case 'header':
      return header ? { type, cursor, header } : fail(`${at}.header`, 'there');
  }
}
