// A carrier without a network: the test is the server. It runs the real frame
// code, so that what a test sends is validated as in the browser.

import { FrameCarrier } from '../carrier';
import { CarrierError } from '../errors';
import type { Generation, Link } from '../link';
import type { ClientFrame, ServerFrame, StreamName } from '../types';

/** One stream as the server sees it. */
export interface Opened {
  readonly stream: number;
  readonly name: StreamName;
  readonly args: unknown;
}

export class ScriptedCarrier extends FrameCarrier {
  readonly sent: ClientFrame[];
  closedWith: { code: number; reason: string } | undefined;

  constructor() {
    const sent: ClientFrame[] = [];
    const closed = (code: number, reason: string): void => void (this.closedWith ??= { code, reason });
    super({ send: (text) => void sent.push(JSON.parse(text) as ClientFrame), close: closed });
    this.sent = sent;
  }

  /** The newest open stream of a name; throws when there is none. */
  stream(name: StreamName): Opened {
    const opens = this.opens(name);
    const last = opens.at(-1);
    if (!last) throw new Error(`${name} was not opened`);
    return last;
  }

  /** Every opening of a stream. */
  opens(name: StreamName): Opened[] {
    return this.sent.flatMap((f) => (f.type === 'open' && f.name === name ? [{ stream: f.stream, name, args: f.args }] : []));
  }

  cancelled(stream: number): boolean {
    return this.sent.some((f) => f.type === 'cancel' && f.stream === stream);
  }

  frame(frame: ServerFrame): void {
    this.receive(JSON.stringify(frame));
  }

  item(name: StreamName, value: unknown): void {
    this.frame({ type: 'item', stream: this.stream(name).stream, value });
  }

  end(name: StreamName): void {
    this.frame({ type: 'end', stream: this.stream(name).stream });
  }

  fail(name: StreamName, code: string, message = code): void {
    this.frame({ type: 'error', stream: this.stream(name).stream, error: { code, message } });
  }

  break(code = 1006): void {
    this.broken(new CarrierError('broken', code));
  }
}

/** A link whose generations the test makes. */
export class ScriptedLink implements Link {
  generation: Generation | undefined;
  readonly #listeners = new Set<() => void>();
  #number = 0;

  subscribe(f: () => void): () => void {
    this.#listeners.add(f);
    return () => void this.#listeners.delete(f);
  }

  /** Begins a generation on a new carrier. */
  connect(): ScriptedCarrier {
    const carrier = new ScriptedCarrier();
    this.generation = { number: ++this.#number, carrier, clientId: `client ${this.#number}`, serverInstanceId: 'server' };
    carrier.onClose(() => {
      if (this.generation?.carrier !== carrier) return;
      this.generation = undefined;
      this.#tell();
    });
    this.#tell();
    return carrier;
  }

  #tell(): void {
    for (const f of [...this.#listeners]) f();
  }
}

/** Lets everything that is ready run, without passing time. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}
