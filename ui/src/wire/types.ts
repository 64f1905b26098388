// The documents of the HTTP interface and of the live connection, as the Go
// packages proto/api, proto/row and proto/exec define them. Times are Unix
// milliseconds, sizes bytes.

import type { Decision, PermissionRow, QuestionRow, Usage, Row, Live } from './rows';

export type * from './rows';

// ---- chats -----------------------------------------------------------------

export type Phase = 'idle' | 'accepted' | 'preparing' | 'running' | 'waiting' | 'reconnecting';

export interface State {
  phase: Phase;
  turnId?: string;
  runId?: string;
  queued?: number;
  queuePaused?: boolean;
  pending?: number;
  /** Why the chat cannot be used. */
  unavailable?: string;
}

export interface Chat {
  id: string;
  title: string;
  tags: string[];
  pinned: boolean;
  archived: boolean;
  executorId: string;
  agent: string;
  model?: string;
  mode?: string;
  effort?: string;
  providerId?: string;
  projectPath: string;
  ownerEpoch: number;
  parentId?: string;
  origin?: string;
  createdAt: number;
  lastActivity: number;
  unread: boolean;
  preview?: string;
  state: State;
}

export interface ChatList {
  chats: Chat[];
}

export interface AttachmentRef {
  name: string;
  mediaType: string;
  digest: string;
}

export interface StartRequest {
  requestId: string;
  executorId?: string;
  agent?: string;
  model?: string;
  mode?: string;
  effort?: string;
  providerId?: string;
  projectPath: string;
  title?: string;
  tags?: string[];
  parentId?: string;
  settings?: Record<string, string>;
  prompt: string;
  attachments?: AttachmentRef[];
}

export type BusyPolicy = 'reject' | 'queue' | 'steer' | 'interrupt';

export interface SubmitRequest {
  requestId: string;
  prompt: string;
  attachments?: AttachmentRef[];
  busy?: BusyPolicy;
  model?: string;
  mode?: string;
  effort?: string;
  expectedOwnerEpoch?: number;
}

export type Disposition = 'started' | 'queued' | 'steered';

export interface Accepted {
  chatId: string;
  turnId: string;
  disposition: Disposition;
  entryId?: string;
  replayed?: boolean;
}

export interface CompactRequest {
  requestId: string;
  instructions?: string;
}

export interface StopRequest {
  turnId?: string;
}

export interface Stopped {
  stopped: boolean;
  turnId?: string;
  queuePaused?: boolean;
}

export interface UpdateRequest {
  title?: string;
  tags?: string[];
  pinned?: boolean;
  archived?: boolean;
  unread?: boolean;
  model?: string;
  mode?: string;
  effort?: string;
}

export interface Deleted {
  chatId: string;
}

export type TurnState = 'queued' | 'active' | 'ended';
export type TurnOutcome = 'completed' | 'failed' | 'interrupted' | 'removed';

export interface Receipt {
  chatId: string;
  turnId: string;
  state: TurnState;
  outcome?: TurnOutcome;
  finalText?: string;
  finalTextSize?: number;
  usage?: Usage;
  error?: ErrorDocument;
  startedAt?: number;
  endedAt?: number;
  phase?: Phase;
  pending?: number;
}

// ---- control ---------------------------------------------------------------

export interface Control {
  chatId: string;
  revision: number;
  phase: Phase;
  turnId?: string;
  runId?: string;
  startedAt?: number;
  queue: Queue;
  pending: Pending[];
  jobs: Job[];
}

export interface Queue {
  entries: QueueEntry[];
  paused: boolean;
  reason?: string;
}

export interface QueueEntry {
  id: string;
  turnId: string;
  prompt: string;
  attachments?: AttachmentRef[];
  revision: number;
  queuedAt: number;
}

export interface Pending {
  occurrence: string;
  runId: string;
  controlId: string;
  kind: 'permission' | 'question';
  answering?: boolean;
  since: number;
  row: PermissionRow | QuestionRow;
}

export interface Job {
  id: string;
  kind?: string;
  title?: string;
}

export interface DecideRequest {
  runId: string;
  controlId: string;
  optionId?: string;
  decision?: Decision;
  message?: string;
}

export interface AnswerRequest {
  runId: string;
  controlId: string;
  answers?: Record<string, string[]>;
  decline?: boolean;
  message?: string;
}

export interface Resolved {
  occurrence: string;
  outcome: 'delivered' | 'unknown';
}

export interface QueueUpdateRequest {
  revision: number;
  prompt?: string;
  attachments?: AttachmentRef[];
}

export interface QueueOrderRequest {
  entryIds: string[];
}

export interface QueueSendRequest {
  how: 'steer' | 'interrupt';
}

export interface Page {
  chatId: string;
  view: string;
  through: number;
  rows: Row[];
  hasMore: boolean;
}

// ---- catalog ---------------------------------------------------------------

export interface Uploaded {
  digest: string;
  size: number;
  name: string;
  mediaType: string;
}

export interface Mode {
  id: string;
  label: string;
  description?: string;
  /** Tools run unasked in this mode. */
  bypass?: boolean;
}

export interface AttachmentRules {
  mediaTypes?: string[];
  maxCount?: number;
  maxBytes?: number;
}

export interface SettingDef {
  key: string;
  label: string;
  description?: string;
  default?: string;
  choices?: string[];
}

export type Facet =
  | 'catalog' | 'auth' | 'execution' | 'permissions' | 'steering'
  | 'compaction' | 'forking' | 'history' | 'commands' | 'single-query';

export interface Manifest {
  id: string;
  label: string;
  facets: string[];
  conversation: string;
  needsEndpoint?: boolean;
  protocol?: string;
  modes?: Mode[];
  defaultMode?: string;
  efforts?: string[];
  attachments: AttachmentRules;
  settings?: SettingDef[];
}

export interface AuthStatus {
  installed: boolean;
  path?: string;
  version?: string;
  supported: boolean;
  signedIn: 'yes' | 'no' | 'unknown';
  method?: string;
  install?: string;
  signIn?: string;
  problem?: string;
}

export interface Agent extends Manifest {
  auth?: AuthStatus;
  problem?: string;
}

export interface AgentList {
  executorId: string;
  agents: Agent[];
}

export interface Model {
  id: string;
  label?: string;
  description?: string;
  contextWindow?: number;
  efforts?: string[];
  images?: boolean;
  default?: boolean;
}

export interface ModelList {
  executorId: string;
  agent: string;
  models: Model[];
}

export interface Command {
  name: string;
  description?: string;
  arguments?: string;
}

export interface CommandList {
  agent: string;
  commands: Command[];
}

export interface Provider {
  id: string;
  label: string;
  protocol: string;
  baseUrl: string;
  hasKey: boolean;
  models: string[];
  executors: string[];
  createdAt: number;
}

export interface ProviderList {
  providers: Provider[];
}

export interface ProviderRequest {
  label?: string;
  protocol?: string;
  baseUrl?: string;
  key?: string;
  models?: string[];
}

export interface ProviderTest {
  ok: boolean;
  models: Model[];
  error?: ErrorDocument;
}

export interface Settings {
  defaultExecutor?: string;
  defaultAgent?: string;
  autoTitle?: boolean;
  idleAgentMinutes?: number;
}

export interface Check {
  name: string;
  state: 'ok' | 'warning' | 'problem';
  text: string;
  hint?: string;
}

export interface Doctor {
  checks: Check[];
}

// ---- who is signed in ------------------------------------------------------

export interface Session {
  signedIn: boolean;
  passwordSet: boolean;
  noAuth: boolean;
  sessionId?: string;
}

export interface LoginRequest {
  secret?: string;
  password?: string;
}

export interface BrowserSession {
  id: string;
  label: string;
  address?: string;
  createdAt: number;
  lastSeen: number;
  expiresAt: number;
  current?: boolean;
  connected?: boolean;
}

export interface BrowserSessionList {
  sessions: BrowserSession[];
}

export interface PasswordRequest {
  current?: string;
  next: string;
}

export interface EventAnswerRequest {
  clientId: string;
  kind: 'result' | 'rejection' | 'next';
  optionId?: string;
  decision?: Decision;
  answers?: Record<string, string[]>;
  message?: string;
}

export interface EventAnswered {
  outcome: 'delivered' | 'next';
  waiting?: number;
}

/** The bounds of a password, in bytes. */
export const MIN_PASSWORD = 10;
export const MAX_PASSWORD = 1024;
export const MAX_FOLDERS = 256;

// ---- failures --------------------------------------------------------------

export type Dispatched = 'no' | 'yes' | 'unknown';

export interface ErrorDocument {
  code: string;
  message: string;
  hint?: string;
  details?: Record<string, unknown>;
}

export interface Envelope {
  error: ErrorDocument;
}

// ---- the live connection ---------------------------------------------------

export type StreamName =
  | '$events' | 'chats.list' | 'folders.follow' | 'control.follow' | 'chat.follow' | 'executors.follow';

export type ClientFrame =
  | { type: 'open'; stream: number; name: StreamName; args?: unknown }
  | { type: 'cancel'; stream: number };

export type ServerFrame =
  | { type: 'item'; stream: number; value: unknown }
  | { type: 'part'; stream: number; text: string; last: boolean }
  | { type: 'end'; stream: number }
  | { type: 'error'; stream: number; error: ErrorDocument };

export interface Host {
  version: string;
  workspace: string;
  noAuth?: boolean;
  demo?: boolean;
  heartbeatMs: number;
}

export interface Notification {
  kind: 'run-finished' | 'run-failed' | 'asked';
  chatId: string;
  turnId?: string;
  title?: string;
  text?: string;
  durationMs?: number;
}

export interface Ready {
  type: 'ready';
  clientId: string;
  host: Host;
  serverInstanceId: string;
}

export type EventItem =
  | Ready
  | { type: 'emit'; event: Notification }
  | { type: 'waterfall'; eventId: string; chatId: string; request: Pending }
  | { type: 'cancel'; eventId: string; reason?: 'RESOLVED' | 'ASK_ABORTED' | 'OUTCOME_UNKNOWN' | 'OFFERED_AGAIN' };

export type ChatsItem =
  | { type: 'snapshot'; chats: Chat[] }
  | { type: 'upsert'; chat: Chat }
  | { type: 'remove'; chatId: string };

export type ControlItem =
  | { type: 'snapshot'; chats: Control[] }
  | { type: 'upsert'; control: Control }
  | { type: 'remove'; chatId: string };

export interface Folder {
  id: string;
  name: string;
  collapsed?: boolean;
  chatIds: string[];
}

export type FoldersItem =
  | { type: 'snapshot'; folders: Folder[]; order: string[]; archived: string[] }
  | { type: 'upsert'; folder: Folder; order?: string[] }
  | { type: 'remove'; id: string; order?: string[] }
  | { type: 'order'; order: string[] }
  | { type: 'archived'; archived: string[] };

export interface FolderList {
  folders: Folder[];
  archived: string[];
}

export interface FolderRequest {
  name: string;
}

export interface FolderUpdateRequest {
  name?: string;
  collapsed?: boolean;
}

export interface FolderOrderRequest {
  order: string[];
}

export interface ChatFolderRequest {
  folderId: string | null;
  position?: number;
}

export interface FollowArgs {
  chatId: string;
  child?: string;
  maxMessages: number;
}

export interface FollowSnapshot {
  type: 'snapshot';
  view: string;
  header?: Chat;
  cursor: number;
  rows: Row[];
  hasMore: boolean;
  live: Live[];
}

export interface FollowRows {
  type: 'rows';
  cursor: number;
  rows: Row[];
  live: Live[];
  ended: string[];
}

export interface FollowLive {
  type: 'live';
  cursor: number;
  live: Live[];
  ended: string[];
}

export interface FollowHeader {
  type: 'header';
  cursor: number;
  header: Chat;
}

export type FollowItem = FollowSnapshot | FollowRows | FollowLive | FollowHeader;

export interface Executor {
  id: string;
  label: string;
  availability: 'ready' | 'reconnecting' | 'offline' | 'disposed';
  version?: string;
  hostname?: string;
  projectBase?: string;
  lastError?: string;
}

export type ExecutorsItem =
  | { type: 'snapshot'; executors: Executor[] }
  | { type: 'upsert'; executor: Executor }
  | { type: 'remove'; executorId: string };

// ---- bounds of the interface -------------------------------------------------

export const MAX_FRAME = 64 << 10;
export const MAX_PROMPT = 4 << 20;
export const MAX_ATTACHMENT = 32 << 20;
export const MAX_TITLE = 4 << 10;
export const MAX_PAGE_MESSAGES = 500;
export const CLOSE_SIGNED_OUT = 4401;
export const CLOSE_PROTOCOL = 4400;
export const CLOSE_SLOW = 4408;
export const MUX_PROTOCOL = 'garcon.mux.v1';
