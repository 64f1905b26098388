import type { ConnectionState } from '../wire/connection';
import type { Host } from '../wire/types';

/** Silence shorter than this is not worth a banner, in milliseconds. */
export const BANNER_DELAY = 1_000;

/** What people see of the connection. */
export class ConnectionStatus {
  state = $state.raw<ConnectionState>({ phase: 'closed' });
  /** The server of the newest generation. */
  host = $state.raw<Host | undefined>();
  clientId = $state<string | undefined>();
  instance = $state<string | undefined>();
  /** Generations after the first of this page. */
  reconnects = $state(0);
  /** Whether the connection has been gone long enough to say so. */
  troubled = $state(false);
  /** Whether the server is another version than the one this page came from. */
  outdated = $state(false);
  /** A clock for countdowns, in Unix milliseconds; it runs only while waiting. */
  now = $state(Date.now());
  #trouble: ReturnType<typeof setTimeout> | undefined;
  #clock: ReturnType<typeof setInterval> | undefined;
  #version: string | undefined;

  readonly connected: boolean = $derived(this.state.phase === 'connected');

  /** Takes the next state of the connection. */
  set(state: ConnectionState): void {
    this.state = state;
    clearInterval(this.#clock);
    if (state.phase === 'connected') {
      clearTimeout(this.#trouble);
      this.#trouble = undefined;
      this.troubled = false;
      if (this.#version !== undefined) this.reconnects++;
      this.#version ??= state.ready.host.version;
      if (state.ready.host.version !== this.#version) this.outdated = true;
      this.host = state.ready.host;
      this.clientId = state.ready.clientId;
      this.instance = state.ready.serverInstanceId;
      return;
    }
    if (state.phase === 'waiting') {
      this.now = Date.now();
      this.#clock = setInterval(() => (this.now = Date.now()), 500);
    }
    this.#trouble ??= setTimeout(() => (this.troubled = true), BANNER_DELAY);
  }

  dispose(): void {
    clearInterval(this.#clock);
    clearTimeout(this.#trouble);
  }
}
