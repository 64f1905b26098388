import type { Dispatched, ErrorDocument } from './types';

/** Codes of failures that begin in the browser; all others come from the server. */
export type LocalCode = 'CONNECTION_LOST' | 'OFFLINE' | 'NOT_CONNECTED' | 'PROTOCOL' | 'TIMEOUT' | 'ABORTED';

/**
 * A failure with a code that has a sentence. The server's are business
 * failures: they are final, and nothing retries them.
 */
export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  readonly code: string;
  readonly hint: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;
  /** The HTTP status, 0 for a failure that did not come as an answer. */
  readonly status: number;

  constructor(body: ErrorDocument, status = 0) {
    super(body.message);
    this.code = body.code;
    this.hint = body.hint;
    this.details = body.details ?? {};
    this.status = status;
  }

  /** Whether the request can have had an effect. */
  get dispatched(): Dispatched {
    const said = this.details['dispatched'];
    if (said === 'no' || said === 'yes' || said === 'unknown') return said;
    return this.status === 0 ? 'unknown' : 'yes';
  }

  /** How long the other side asked to wait, in milliseconds. */
  get retryAfterMs(): number | undefined {
    const ms = this.details['retryAfterMs'];
    return typeof ms === 'number' && ms > 0 ? ms : undefined;
  }
}

/** Makes the failure of a request that did not get an answer. */
export function localError(code: LocalCode, message: string, dispatched: Dispatched = 'no'): ApiError {
  return new ApiError({ code, message, details: { dispatched } });
}

/** The link broke. Only this kind of failure is retried. */
export class CarrierError extends Error {
  override readonly name = 'CarrierError';
  /** The close code of the socket, 0 when there was none. */
  readonly code: number;

  constructor(message: string, code = 0) {
    super(message);
    this.code = code;
  }
}

/** The other side broke the protocol. Terminal: trying again would break again. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

/** Turns anything thrown into something with a code. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof CarrierError) return localError('CONNECTION_LOST', thrown.message, 'unknown');
  if (thrown instanceof ProtocolError) return localError('PROTOCOL', thrown.message, 'unknown');
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new ApiError({ code: 'INTERNAL', message });
}
