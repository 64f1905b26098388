import { chat, control, folder, page, row, session } from './decode';
import { AGENT, type Http } from './http';
import type {
  Accepted, AgentList, AnswerRequest, Attachment, BrowserSessionList, Chat, ChatFolderRequest, CommandList, CompactRequest,
  Control, DecideRequest, Deleted, Doctor, EventAnswered, EventAnswerRequest, Folder, FolderList,
  FolderOrderRequest, FolderRequest, FolderUpdateRequest, LoginRequest, ModelList, Page, PasswordRequest, Provider,
  ProviderList, ProviderRequest, ProviderTest, QueueOrderRequest, QueueSendRequest, QueueUpdateRequest, Receipt,
  Resolved, Row, Session, Settings, StartRequest, Stopped, StopRequest, SubmitRequest, UpdateRequest, Uploaded,
} from './types';

const id = encodeURIComponent;

/** An upload takes as long as the link needs; this only ends a dead one. */
const UPLOAD = 10 * 60_000;

/** The operations of the controller. Each rejects with an ApiError. */
export class Api {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  // ---- who is signed in

  async session(signal?: AbortSignal): Promise<Session> {
    return session(await this.#http.request('GET', 'session', { open: true, ...(signal && { signal }) }));
  }

  login(body: LoginRequest): Promise<Session> {
    return this.#call('POST', 'login', { body, open: true });
  }

  logout(): Promise<Session> {
    return this.#call('POST', 'logout', { body: {}, open: true });
  }

  sessions(): Promise<BrowserSessionList> {
    return this.#call('GET', 'sessions');
  }

  revokeSession(session: string): Promise<BrowserSessionList> {
    return this.#call('DELETE', `sessions/${id(session)}`);
  }

  setPassword(body: PasswordRequest): Promise<Session> {
    return this.#call('PUT', 'password', { body });
  }

  // ---- chats

  async chats(archived?: 'also' | 'only'): Promise<Chat[]> {
    const query = archived === 'also' ? { archived: true } : archived === 'only' ? { only: 'archived' } : {};
    const answer = (await this.#http.request('GET', 'chats', { query })) as { chats?: unknown[] };
    return (answer.chats ?? []).map((c, i) => chat(c, `chats[${i}]`));
  }

  start(body: StartRequest): Promise<Accepted> {
    return this.#call('POST', 'chats', { body, timeout: AGENT });
  }

  async show(chatId: string): Promise<Chat> {
    return chat(await this.#http.request('GET', `chats/${id(chatId)}`));
  }

  async update(chatId: string, body: UpdateRequest): Promise<Chat> {
    return chat(await this.#http.request('PATCH', `chats/${id(chatId)}`, { body }));
  }

  remove(chatId: string): Promise<Deleted> {
    return this.#call('DELETE', `chats/${id(chatId)}`);
  }

  submit(chatId: string, body: SubmitRequest, signal?: AbortSignal): Promise<Accepted> {
    return this.#call('POST', `chats/${id(chatId)}/turns`, { body, timeout: AGENT, ...(signal && { signal }) });
  }

  stop(chatId: string, body: StopRequest): Promise<Stopped> {
    return this.#call('POST', `chats/${id(chatId)}/stop`, { body });
  }

  compact(chatId: string, body: CompactRequest): Promise<Accepted> {
    return this.#call('POST', `chats/${id(chatId)}/compact`, { body, timeout: AGENT });
  }

  receipt(chatId: string, turnId: string): Promise<Receipt> {
    return this.#call('GET', `chats/${id(chatId)}/turns/${id(turnId)}`);
  }

  async control(chatId: string): Promise<Control> {
    return control(await this.#http.request('GET', `chats/${id(chatId)}/control`));
  }

  /** A page of a transcript that ends at through (the newest row without it), or before that ordinal. */
  async page(
    chatId: string,
    query: { through?: number | undefined; before?: number | undefined; max: number; child?: string | undefined },
    signal?: AbortSignal,
  ): Promise<Page> {
    return page(await this.#http.request('GET', `chats/${id(chatId)}/rows`, { query, ...(signal && { signal }) }));
  }

  /** The whole of a row that came as its head. */
  async body(chatId: string, ordinal: number, child?: string): Promise<Row> {
    return row(await this.#http.request('GET', `chats/${id(chatId)}/rows/${ordinal}/body`, { query: { child }, timeout: AGENT }));
  }

  exportUrl(chatId: string, format: string): string {
    return this.#http.url(`chats/${id(chatId)}/export`, { format });
  }

  // ---- queue

  updateEntry(chatId: string, entry: string, body: QueueUpdateRequest): Promise<unknown> {
    return this.#call('PATCH', `chats/${id(chatId)}/queue/${id(entry)}`, { body });
  }

  removeEntry(chatId: string, entry: string): Promise<unknown> {
    return this.#call('DELETE', `chats/${id(chatId)}/queue/${id(entry)}`);
  }

  orderQueue(chatId: string, body: QueueOrderRequest): Promise<unknown> {
    return this.#call('PUT', `chats/${id(chatId)}/queue`, { body });
  }

  pauseQueue(chatId: string): Promise<unknown> {
    return this.#call('POST', `chats/${id(chatId)}/queue/pause`, {});
  }

  resumeQueue(chatId: string): Promise<unknown> {
    return this.#call('POST', `chats/${id(chatId)}/queue/resume`, {});
  }

  sendEntry(chatId: string, entry: string, body: QueueSendRequest): Promise<Accepted> {
    return this.#call('POST', `chats/${id(chatId)}/queue/${id(entry)}/send`, { body, timeout: AGENT });
  }

  // ---- requests to the user

  decide(chatId: string, occurrence: string, body: DecideRequest): Promise<Resolved> {
    return this.#call('POST', `chats/${id(chatId)}/permissions/${id(occurrence)}`, { body });
  }

  answer(chatId: string, occurrence: string, body: AnswerRequest): Promise<Resolved> {
    return this.#call('POST', `chats/${id(chatId)}/questions/${id(occurrence)}`, { body });
  }

  answerEvent(event: string, body: EventAnswerRequest): Promise<EventAnswered> {
    return this.#call('POST', `events/${id(event)}/answer`, { body });
  }

  // ---- attachments

  upload(file: Blob, name: string, signal?: AbortSignal): Promise<Uploaded> {
    return this.#call('POST', 'attachments', { blob: file, query: { name }, timeout: UPLOAD, ...(signal && { signal }) });
  }

  attachmentUrl(attachment: Pick<Attachment, 'digest' | 'name'>): string {
    return this.#http.url(`attachments/${id(attachment.digest)}`, { name: attachment.name });
  }

  // ---- agents and providers

  async agents(executor?: string): Promise<AgentList> {
    const list = await this.#call<AgentList>('GET', 'agents', { query: { executor }, timeout: AGENT });
    return { ...list, agents: list.agents ?? [] };
  }

  async models(agent: string, query: { executor?: string | undefined; project?: string | undefined; provider?: string | undefined }): Promise<ModelList> {
    const list = await this.#call<ModelList>('GET', `agents/${id(agent)}/models`, { query, timeout: AGENT });
    return { ...list, models: list.models ?? [] };
  }

  async commands(agent: string, query: { executor?: string | undefined; project?: string | undefined }): Promise<CommandList> {
    const list = await this.#call<CommandList>('GET', `agents/${id(agent)}/commands`, { query, timeout: AGENT });
    return { ...list, commands: list.commands ?? [] };
  }

  async providers(): Promise<Provider[]> {
    return ((await this.#call<ProviderList>('GET', 'providers')).providers ?? []).map(readProvider);
  }

  async addProvider(body: ProviderRequest): Promise<Provider> {
    return readProvider(await this.#call<Provider>('POST', 'providers', { body }));
  }

  async updateProvider(provider: string, body: ProviderRequest): Promise<Provider> {
    return readProvider(await this.#call<Provider>('PATCH', `providers/${id(provider)}`, { body }));
  }

  removeProvider(provider: string): Promise<unknown> {
    return this.#call('DELETE', `providers/${id(provider)}`);
  }

  testProvider(provider: string): Promise<ProviderTest> {
    return this.#call('POST', `providers/${id(provider)}/test`, { timeout: AGENT });
  }

  settings(): Promise<Settings> {
    return this.#call('GET', 'settings');
  }

  updateSettings(body: Settings): Promise<Settings> {
    return this.#call('PATCH', 'settings', { body });
  }

  async doctor(): Promise<Doctor> {
    const report = await this.#call<Doctor>('GET', 'doctor', { timeout: AGENT });
    return { checks: report.checks ?? [] };
  }

  // ---- folders

  async createFolder(body: FolderRequest): Promise<Folder> {
    return folder(await this.#http.request('POST', 'folders', { body }));
  }

  async updateFolder(folderId: string, body: FolderUpdateRequest): Promise<Folder> {
    return folder(await this.#http.request('PATCH', `folders/${id(folderId)}`, { body }));
  }

  async deleteFolder(folderId: string): Promise<FolderList> {
    return folders(await this.#http.request('DELETE', `folders/${id(folderId)}`));
  }

  async orderFolders(body: FolderOrderRequest): Promise<FolderList> {
    return folders(await this.#http.request('PUT', 'folders/order', { body }));
  }

  async moveChat(chatId: string, body: ChatFolderRequest): Promise<FolderList> {
    return folders(await this.#http.request('PUT', `chats/${id(chatId)}/folder`, { body }));
  }

  async #call<T>(method: string, path: string, options?: Parameters<Http['request']>[2]): Promise<T> {
    return (await this.#http.request(method, path, options)) as T;
  }
}

function readProvider(p: Provider): Provider {
  return { ...p, models: p.models ?? [], executors: p.executors ?? [] };
}

function folders(value: unknown): FolderList {
  const list = value as Partial<FolderList>;
  return { folders: (list.folders ?? []).map((f) => folder(f)), archived: list.archived ?? [] };
}
