import type { Carrier, PhysicalStream } from './carrier';
import { eventItem } from './decode';
import { CarrierError, ProtocolError } from './errors';
import type { Generation, Link } from './link';
import { CLOSE_SIGNED_OUT, type EventItem, type Ready } from './types';

/** How the connection is, for people. */
export type ConnectionState =
  /** An attempt is being made; attempt counts those since the last generation. */
  | { readonly phase: 'connecting'; readonly attempt: number }
  | { readonly phase: 'connected'; readonly ready: Ready }
  /** The next attempt is made at that time (Date.now()). */
  | { readonly phase: 'waiting'; readonly attempt: number; readonly retryAt: number; readonly error: string }
  /** The browser says that there is no network. */
  | { readonly phase: 'offline' }
  /** The session is over. Nothing is tried until signedIn is called. */
  | { readonly phase: 'signed-out' }
  | { readonly phase: 'closed' };

export interface ConnectionOptions {
  dial(signal: AbortSignal): Promise<Carrier>;
  /**
   * Whether this browser is signed in, asked after a failed dial: a refused
   * upgrade looks like any other failure. It rejects when that cannot be known.
   */
  signedIn(signal: AbortSignal): Promise<boolean>;
  onState(state: ConnectionState): void;
  onEvent(item: Exclude<EventItem, Ready>): void;
  /** Between 0 and 1; for the jitter. */
  random?(): number;
}

/** The pauses between attempts grow from the first to the last, in milliseconds. */
export const FIRST_PAUSE = 250;
export const LAST_PAUSE = 10_000;
/** How long a server may take to send ready, in milliseconds. */
export const READY_TIMEOUT = 10_000;
/** A generation that lived this long was a good one: the next pause is the first again. */
export const STABLE_AFTER = 10_000;
/** How often the watchdog looks when the server does not say, in milliseconds. */
const DEFAULT_HEARTBEAT = 2_000;
/** After so many heartbeats without a frame the server is asked for one. */
export const PROBE_AFTER = 2;
/** After so many more without an answer the carrier is given up. */
export const DEAD_AFTER = 3;

/**
 * Keeps one connection generation alive: dials, waits for ready, watches for
 * silence, and dials again after a pause that grows to ten seconds.
 */
export class Connection implements Link {
  readonly #options: ConnectionOptions;
  readonly #listeners = new Set<() => void>();
  #state: ConnectionState = { phase: 'closed' };
  #generation: Generation | undefined;
  #number = 0;
  #attempt = 0;
  /** Fences everything asynchronous of one attempt and its generation. */
  #epoch = 0;
  #abort = new AbortController();
  #carrier: Carrier | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stable: ReturnType<typeof setTimeout> | undefined;
  #watchdog: ReturnType<typeof setInterval> | undefined;
  #probe: { stream: PhysicalStream; at: number } | undefined;
  #visible = true;
  #online = true;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get generation(): Generation | undefined {
    return this.#generation;
  }

  subscribe(f: () => void): () => void {
    this.#listeners.add(f);
    return () => void this.#listeners.delete(f);
  }

  /** Begins to connect; also after the login, and instead of a pause. */
  connectNow(): void {
    if (this.#generation) return;
    this.#attempt = 0;
    this.#dial();
  }

  /** The browser's own opinion of the network. It suspends and restarts, and proves nothing. */
  setOnline(online: boolean): void {
    if (online === this.#online) return;
    this.#online = online;
    if (this.#state.phase === 'signed-out' || this.#state.phase === 'closed') return;
    if (!online) {
      if (this.#generation) return; // the socket decides whether it is true
      this.#drop();
      this.#set({ phase: 'offline' });
      return;
    }
    if (this.#generation) this.#ask();
    else this.connectNow();
  }

  /** The page came to the front or left it. Coming back after a freeze, nothing is believed. */
  setVisible(visible: boolean): void {
    if (visible === this.#visible) return;
    this.#visible = visible;
    if (!visible) return;
    if (this.#generation) this.#ask();
    else if (this.#state.phase === 'waiting') this.connectNow();
  }

  /** The session is over: ends the generation and all attempts. */
  signedOut(): void {
    this.#drop('The session is over.');
    this.#set({ phase: 'signed-out' });
  }

  /** Ends the generation and begins another; for a client that may have lost something. */
  renew(reason: string): void {
    if (!this.#generation) return;
    this.#lost(new CarrierError(reason));
  }

  close(): void {
    this.#drop('The page was closed.');
    this.#set({ phase: 'closed' });
  }

  #dial(): void {
    this.#drop();
    if (!this.#online) {
      this.#set({ phase: 'offline' });
      return;
    }
    const epoch = this.#epoch;
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#attempt++;
    this.#set({ phase: 'connecting', attempt: this.#attempt });
    this.#options.dial(signal).then(
      (carrier) => {
        if (epoch !== this.#epoch) carrier.close('The attempt was given up.');
        else this.#opened(carrier, epoch);
      },
      (thrown: unknown) => {
        if (epoch === this.#epoch) this.#failed(asCarrierError(thrown), epoch);
      },
    );
  }

  #opened(carrier: Carrier, epoch: number): void {
    this.#carrier = carrier;
    const lost = (error: CarrierError): void => {
      if (epoch === this.#epoch) this.#lost(error);
    };
    carrier.onClose(lost);
    this.#timer = setTimeout(() => lost(new CarrierError('The server did not get ready in time.')), READY_TIMEOUT);
    carrier.open('$events', {}, {
      item: (value) => {
        if (epoch !== this.#epoch) return;
        try {
          this.#event(eventItem(value), carrier);
        } catch (thrown) {
          if (!(thrown instanceof ProtocolError)) throw thrown;
          lost(new CarrierError(`The server broke the protocol: ${thrown.message}`));
        }
      },
      end: () => lost(new CarrierError('The server ended the connection.')),
      error: (error) => lost(asCarrierError(error)),
    });
  }

  #event(item: EventItem, carrier: Carrier): void {
    if (item.type === 'ready') {
      if (this.#generation) throw new ProtocolError('a second ready');
      this.#ready(item, carrier);
      return;
    }
    if (!this.#generation) throw new ProtocolError(`${item.type} before ready`);
    this.#options.onEvent(item);
  }

  #ready(ready: Ready, carrier: Carrier): void {
    clearTimeout(this.#timer);
    this.#generation = {
      number: ++this.#number,
      carrier,
      clientId: ready.clientId,
      serverInstanceId: ready.serverInstanceId,
    };
    this.#stable = setTimeout(() => (this.#attempt = 0), STABLE_AFTER);
    const heartbeat = ready.host.heartbeatMs > 0 ? ready.host.heartbeatMs : DEFAULT_HEARTBEAT;
    let looked = performance.now();
    this.#watchdog = setInterval(() => {
      const now = performance.now();
      // A look that comes late says that this page stood still, not the server.
      const late = now - looked > 2 * heartbeat;
      looked = now;
      this.#watch(carrier, now, heartbeat, late);
    }, heartbeat);
    this.#set({ phase: 'connected', ready });
    this.#tell();
  }

  #watch(carrier: Carrier, now: number, heartbeat: number, late: boolean): void {
    if (this.#probe) {
      if (carrier.heardAt > this.#probe.at) this.#endProbe();
      else if (late) this.#probe.at = now;
      else if (now - this.#probe.at >= DEAD_AFTER * heartbeat) this.#lost(new CarrierError('The server fell silent.'));
      return;
    }
    if (this.#visible && now - carrier.heardAt >= PROBE_AFTER * heartbeat) this.#ask();
  }

  /**
   * Asks the server for a frame. A page does not see the pings of the socket,
   * so it opens a small stream: its snapshot proves both directions.
   */
  #ask(): void {
    const carrier = this.#generation?.carrier;
    if (!carrier || this.#probe) return;
    const answered = (): void => this.#endProbe();
    const stream = carrier.open('executors.follow', {}, { item: answered, end: answered, error: answered });
    this.#probe = { stream, at: performance.now() };
  }

  #endProbe(): void {
    this.#probe?.stream.cancel();
    this.#probe = undefined;
  }

  #lost(error: CarrierError): void {
    const had = this.#generation;
    this.#drop(error.message);
    if (error.code === CLOSE_SIGNED_OUT) {
      this.#set({ phase: 'signed-out' });
      return;
    }
    // The first attempt after a good generation is made at once, and only once.
    if (had && this.#attempt === 0) {
      this.#dial();
      return;
    }
    this.#failed(error, this.#epoch);
  }

  #failed(error: CarrierError, epoch: number): void {
    if (error.code === CLOSE_SIGNED_OUT) {
      this.signedOut();
      return;
    }
    this.#pause(error);
    const pausing = this.#epoch;
    this.#options.signedIn(this.#abort.signal).then(
      (signedIn) => {
        if (!signedIn && pausing === this.#epoch && pausing >= epoch) this.signedOut();
      },
      () => {}, // the server cannot be reached at all: keep trying
    );
  }

  #pause(error: CarrierError): void {
    this.#drop(error.message);
    if (!this.#online) {
      this.#set({ phase: 'offline' });
      return;
    }
    this.#abort = new AbortController();
    const pause = pauseAfter(this.#attempt, (this.#options.random ?? Math.random)());
    const epoch = this.#epoch;
    this.#set({ phase: 'waiting', attempt: this.#attempt, retryAt: Date.now() + pause, error: error.message });
    this.#timer = setTimeout(() => {
      if (epoch === this.#epoch) this.#dial();
    }, pause);
  }

  /** Ends the attempt or generation that is going, and fences it off. */
  #drop(reason = 'A new connection is being made.'): void {
    this.#epoch++;
    this.#abort.abort();
    clearTimeout(this.#timer);
    clearTimeout(this.#stable);
    clearInterval(this.#watchdog);
    this.#probe = undefined;
    const had = this.#generation;
    const carrier = this.#carrier;
    this.#generation = undefined;
    this.#carrier = undefined;
    carrier?.close(reason);
    if (had) this.#tell();
  }

  #tell(): void {
    for (const f of [...this.#listeners]) f();
  }

  #set(state: ConnectionState): void {
    this.#state = state;
    this.#options.onState(state);
  }
}

/** The pause after the attempt with that number (from 1), in milliseconds: at least half of a delay that doubles. */
export function pauseAfter(attempt: number, random: number): number {
  const full = Math.min(LAST_PAUSE, FIRST_PAUSE * 2 ** Math.min(attempt - 1, 16));
  return Math.round(Math.max(FIRST_PAUSE, full * (0.5 + random / 2)));
}

function asCarrierError(thrown: unknown): CarrierError {
  if (thrown instanceof CarrierError) return thrown;
  return new CarrierError(thrown instanceof Error ? thrown.message : String(thrown));
}
