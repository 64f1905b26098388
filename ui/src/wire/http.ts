import { errorDocument } from './decode';
import { ApiError, localError } from './errors';

export interface HttpOptions {
  /** Where the API is, with a slash at its end. */
  base: string;
  /** The instance of the server that the page talks to, undefined before the first ready. */
  instance(): string | undefined;
  /** Called when the server says that nobody is signed in. */
  onUnauthorized(): void;
  fetch?: typeof fetch;
}

export interface RequestOptions {
  query?: Record<string, string | number | boolean | undefined>;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, with its own type. */
  blob?: Blob;
  signal?: AbortSignal;
  /** In milliseconds; the server's own bound is a little shorter. */
  timeout?: number;
  /** Needs no server instance: login and the question who is signed in. */
  open?: boolean;
}

/** The server bounds quick operations at 30 s, and those that ask an agent at 90 s. */
export const QUICK = 35_000;
export const AGENT = 95_000;

/** Makes requests of the HTTP interface. Every failure is an ApiError, or the reason of the caller's signal. */
export class Http {
  readonly #options: HttpOptions;

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  /** The address of a GET operation, for links and images. */
  url(path: string, query: RequestOptions['query'] = {}): string {
    const url = new URL(path, this.#options.base);
    for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
    return url.href;
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<unknown> {
    const headers = new Headers({ 'X-Garcon-Client': 'browser', Accept: 'application/json' });
    const instance = this.#options.instance();
    if (instance !== undefined) headers.set('X-Garcon-Server-Instance', instance);
    else if (!options.open) throw localError('NOT_CONNECTED', 'The page is not connected.');
    let body: BodyInit | undefined;
    if (options.blob) {
      body = options.blob;
      headers.set('Content-Type', options.blob.type || 'application/octet-stream');
    } else if (method !== 'GET') {
      body = options.body === undefined ? undefined : JSON.stringify(options.body);
      headers.set('Content-Type', 'application/json');
    }
    const timeout = AbortSignal.timeout(options.timeout ?? QUICK);
    const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
    const dispatched = method === 'GET' ? 'no' : 'unknown';
    try {
      const response = await (this.#options.fetch ?? fetch)(this.url(path, options.query), {
        method, headers, signal, credentials: 'same-origin', cache: 'no-store', redirect: 'error',
        ...(body !== undefined && { body }),
      });
      const text = await response.text();
      if (response.ok) return parse(text, response.status);
      throw this.#failure(text, response.status);
    } catch (thrown) {
      if (thrown instanceof ApiError) throw thrown;
      options.signal?.throwIfAborted();
      if (timeout.aborted) throw localError('TIMEOUT', 'The server did not answer in time.', dispatched);
      throw localError('CONNECTION_LOST', 'The connection to the server broke.', dispatched);
    }
  }

  #failure(text: string, status: number): ApiError {
    let error: ApiError;
    try {
      const envelope = JSON.parse(text) as { error?: unknown };
      error = new ApiError(errorDocument(envelope.error), status);
    } catch {
      // Not the server's own answer: a proxy in front of it.
      error = new ApiError({ code: 'PROTOCOL', message: `The server answered with the status ${status}.`, details: { dispatched: 'unknown' } }, status);
    }
    if (error.code === 'UNAUTHORIZED' && status === 401) this.#options.onUnauthorized();
    return error;
  }
}

/** Every answer is a document; an empty or torn one is what a connection that broke leaves. */
function parse(text: string, status: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError({ code: 'PROTOCOL', message: 'The server answered with something that is not JSON.', details: { dispatched: 'yes' } }, status);
  }
}
