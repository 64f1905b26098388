// The rows of a transcript, as the Go package proto/row defines them.

export interface Head {
  ordinal: number;
  time: number;
  turnId?: string;
  runId?: string;
  /** The live part this row replaces. */
  partId?: string;
  nativeId?: string;
  /** The subagent whose transcript the row belongs to. */
  child?: string;
  imported?: boolean;
  /** Set when the row is only the head of a larger one; see RowHead in Go. */
  fullBytes?: number;
  digest?: string;
}

export type Origin = 'browser' | 'cli' | 'schedule' | 'agent' | 'executor';

export interface Attachment {
  name: string;
  mediaType: string;
  size: number;
  digest: string;
}

export interface Presentation {
  title?: string;
  style?: string;
  color?: string;
  collapsible?: boolean;
}

export interface UserRow extends Head {
  kind: 'user';
  text: string;
  attachments?: Attachment[];
  presentation?: Presentation;
  clientId?: string;
  origin?: Origin;
  steered?: boolean;
}

export interface AssistantRow extends Head {
  kind: 'assistant';
  text: string;
  final?: boolean;
  partial?: boolean;
}

export interface ReasoningRow extends Head {
  kind: 'reasoning';
  text: string;
  partial?: boolean;
}

export type ToolName =
  | 'bash' | 'read' | 'write' | 'edit' | 'patch' | 'glob' | 'grep' | 'list'
  | 'web-search' | 'web-fetch' | 'todo' | 'task' | 'question' | 'plan' | 'mcp' | 'other';

export type ToolStatus = 'running' | 'completed' | 'failed' | 'denied' | 'cancelled';

export interface Edit {
  old: string;
  new: string;
  all?: boolean;
}

export interface Todo {
  text: string;
  status: 'pending' | 'in-progress' | 'completed' | 'cancelled';
}

export interface QuestionOption {
  label: string;
  description?: string;
}

export interface QuestionItem {
  id: string;
  header?: string;
  text: string;
  options?: QuestionOption[];
  multi?: boolean;
  freeText?: boolean;
  secret?: boolean;
}

/** Which members are set depends on the tool; see row.ToolInput. */
export interface ToolInput {
  command?: string;
  description?: string;
  cwd?: string;
  background?: boolean;
  timeoutMs?: number;
  path?: string;
  paths?: string[];
  offset?: number;
  limit?: number;
  content?: string;
  edits?: Edit[];
  patch?: string;
  pattern?: string;
  glob?: string;
  query?: string;
  url?: string;
  prompt?: string;
  agent?: string;
  todos?: Todo[];
  questions?: QuestionItem[];
  plan?: string;
  server?: string;
  method?: string;
  arguments?: unknown;
}

export interface ToolRow extends Head {
  kind: 'tool';
  callId: string;
  tool: ToolName;
  name?: string;
  title?: string;
  status?: ToolStatus;
  input: ToolInput;
}

export interface Image {
  mediaType: string;
  /** Base64. */
  data?: string;
  omitted?: boolean;
  size?: number;
}

export interface ToolResultRow extends Head {
  kind: 'tool-result';
  callId: string;
  output?: string;
  stderr?: string;
  diff?: string;
  exitCode?: number;
  images?: Image[];
  truncated?: boolean;
  fullSize?: number;
  isError?: boolean;
  status?: ToolStatus;
  durationMs?: number;
}

export type Decision = 'allow-once' | 'allow-session' | 'deny' | 'deny-stop';
export type Outcome = 'answered' | 'withdrawn' | 'ended';

export interface PermissionOption {
  id: string;
  decision: Decision;
  label: string;
}

export interface PermissionRow extends Head {
  kind: 'permission';
  occurrence: string;
  callId?: string;
  tool: ToolName;
  name?: string;
  title?: string;
  input: ToolInput;
  reason?: string;
  options: PermissionOption[];
}

export interface PermissionResolvedRow extends Head {
  kind: 'permission-resolved';
  occurrence: string;
  decision?: Decision;
  optionId?: string;
  outcome: Outcome;
  by?: string;
  message?: string;
}

export interface QuestionRow extends Head {
  kind: 'question';
  occurrence: string;
  callId?: string;
  questions: QuestionItem[];
}

export interface QuestionResolvedRow extends Head {
  kind: 'question-resolved';
  occurrence: string;
  answers?: Record<string, string[]>;
  declined?: boolean;
  outcome: Outcome;
  by?: string;
  message?: string;
}

export interface Usage {
  inputTokens?: number;
  outputTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  reasoningTokens?: number;
  contextTokens?: number;
  contextWindow?: number;
  costUsd?: number;
}

export type RunPhase = 'started' | 'completed' | 'failed' | 'interrupted';

export interface RunRow extends Head {
  kind: 'run';
  phase: RunPhase;
  agent?: string;
  model?: string;
  mode?: string;
  code?: string;
  detail?: string;
  hint?: string;
  usage?: Usage;
  durationMs?: number;
  unsolicited?: boolean;
}

export interface CompactionRow extends Head {
  kind: 'compaction';
  trigger: string;
  summary?: string;
  tokensBefore?: number;
  tokensAfter?: number;
}

export interface Owner {
  executor: string;
  agent: string;
  model?: string;
}

export interface HandoffRow extends Head {
  kind: 'handoff';
  from: Owner;
  to: Owner;
}

export interface SubagentRow extends Head {
  kind: 'subagent';
  childId: string;
  callId?: string;
  mode: string;
  type?: string;
  title?: string;
  status: ToolStatus;
  summary?: string;
}

export interface NoticeRow extends Head {
  kind: 'notice';
  code: string;
  title?: string;
  text?: string;
}

export interface ErrorRow extends Head {
  kind: 'error';
  code: string;
  title?: string;
  text?: string;
}

export interface SessionRow extends Head {
  kind: 'session';
  agent: string;
  id: string;
}

/** A row of a kind this version does not know, with the members it came with. */
export interface OpaqueRow extends Head {
  kind: 'opaque';
  type: string;
  members: Record<string, unknown>;
}

export type Row =
  | UserRow | AssistantRow | ReasoningRow | ToolRow | ToolResultRow
  | PermissionRow | PermissionResolvedRow | QuestionRow | QuestionResolvedRow
  | RunRow | CompactionRow | HandoffRow | SubagentRow | NoticeRow | ErrorRow
  | SessionRow | OpaqueRow;

export type RowKind = Row['kind'];

/** An update of a part that is still streaming. Offset counts UTF-8 bytes. */
export interface Live {
  runId: string;
  partId: string;
  child?: string;
  kind: 'assistant' | 'reasoning' | 'tool' | 'tool-result';
  title?: string;
  offset: number;
  text: string;
}

