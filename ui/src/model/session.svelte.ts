import type { Api } from '../wire/api';
import { asApiError, type ApiError } from '../wire/errors';
import type { Session as SessionDocument } from '../wire/types';

/** Who is signed in. */
export class Session {
  readonly #api: Api;
  /** Called when somebody has signed in. */
  readonly #entered: () => void;
  /** "unknown" until the server has answered. */
  state = $state<'unknown' | 'in' | 'out'>('unknown');
  passwordSet = $state(false);
  noAuth = $state(false);
  busy = $state(false);
  error = $state.raw<ApiError | undefined>();

  constructor(api: Api, entered: () => void) {
    this.#api = api;
    this.#entered = entered;
  }

  /** Asks the server whether somebody is signed in. While it cannot be reached the state stays as it is. */
  async load(): Promise<boolean> {
    try {
      this.#take(await this.#api.session());
      this.error = undefined;
    } catch (thrown) {
      this.error = asApiError(thrown);
    }
    return this.state === 'in';
  }

  /** Asks for the connection: whether this browser is still signed in. */
  async check(signal: AbortSignal): Promise<boolean> {
    const session = await this.#api.session(signal);
    this.passwordSet = session.passwordSet;
    this.noAuth = session.noAuth;
    return session.signedIn || session.noAuth;
  }

  /** Signs in with the secret of a link or the password. */
  async login(by: { secret: string } | { password: string }): Promise<boolean> {
    this.busy = true;
    this.error = undefined;
    try {
      this.#take(await this.#api.login(by));
      return this.state === 'in';
    } catch (thrown) {
      this.error = asApiError(thrown);
      if (this.state === 'unknown') this.state = 'out';
      return false;
    } finally {
      this.busy = false;
    }
  }

  async logout(): Promise<void> {
    this.#take(await this.#api.logout());
  }

  /** The connection or a request found that the session is over. */
  ended(): void {
    this.state = 'out';
  }

  changed(session: SessionDocument): void {
    this.#take(session);
  }

  #take(session: SessionDocument): void {
    this.passwordSet = session.passwordSet;
    this.noAuth = session.noAuth;
    const before = this.state;
    this.state = session.signedIn || session.noAuth ? 'in' : 'out';
    if (this.state === 'in' && before !== 'in') this.#entered();
  }
}

const LINK = '#login=';

/** The secret of a one-time link, from the fragment of the address. */
export function loginSecret(hash: string): string | undefined {
  if (!hash.startsWith(LINK)) return undefined;
  const secret = decodeURIComponent(hash.slice(LINK.length)).trim();
  return secret === '' ? undefined : secret;
}
