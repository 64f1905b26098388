import { errorDocument, serverFrame } from './decode';
import { ApiError, CarrierError, ProtocolError } from './errors';
import { CLOSE_PROTOCOL, type ClientFrame, type StreamName } from './types';

/** Who reads a physical stream. Nothing is called after end or error. */
export interface StreamReader {
  item(value: unknown): void;
  /** The other side ended the stream without an error. */
  end(): void;
  /** An ApiError of the other side, or a CarrierError when the link broke. */
  error(error: ApiError | CarrierError): void;
}

/** A physical stream. */
export interface PhysicalStream {
  /** Ends the stream; its reader hears nothing more. */
  cancel(): void;
}

/** One connection that carries streams. It breaks once and stays broken. */
export interface Carrier {
  open(name: StreamName, args: unknown, reader: StreamReader): PhysicalStream;
  /** Calls f once when the carrier is broken, at once when it already is. */
  onClose(f: (error: CarrierError) => void): void;
  /** Breaks the carrier from this side. */
  close(reason: string): void;
  /** When anything last arrived, by the clock of performance.now(). */
  readonly heardAt: number;
}

/** What a FrameCarrier sends with. */
export interface Transport {
  send(text: string): void;
  close(code: number, reason: string): void;
}

/** The close code for a normal end. */
const CLOSE_NORMAL = 1000;

/**
 * Runs the frames of the live connection over any transport of texts. The
 * owner of the transport calls receive for each message and broken once.
 */
export class FrameCarrier implements Carrier {
  heardAt = performance.now();
  readonly #transport: Transport;
  readonly #readers = new Map<number, StreamReader>();
  /** Parts of an item that is not complete, by stream. */
  readonly #parts = new Map<number, string[]>();
  /** Streams that were cancelled and whose end has not come yet. */
  readonly #cancelled = new Set<number>();
  readonly #listeners: ((error: CarrierError) => void)[] = [];
  #next = 1;
  #error: CarrierError | undefined;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  open(name: StreamName, args: unknown, reader: StreamReader): PhysicalStream {
    if (this.#error) {
      const error = this.#error;
      queueMicrotask(() => reader.error(error));
      return { cancel: () => (reader.error = () => {}) };
    }
    const stream = this.#next++;
    this.#readers.set(stream, reader);
    this.#send({ type: 'open', stream, name, ...(args !== undefined && { args }) });
    return {
      cancel: () => {
        if (!this.#readers.delete(stream)) return;
        this.#parts.delete(stream);
        this.#cancelled.add(stream);
        this.#send({ type: 'cancel', stream });
      },
    };
  }

  onClose(f: (error: CarrierError) => void): void {
    if (this.#error) f(this.#error);
    else this.#listeners.push(f);
  }

  close(reason: string): void {
    if (this.#error) return;
    this.#transport.close(CLOSE_NORMAL, reason);
    this.broken(new CarrierError(reason));
  }

  /** Takes one message of the transport. A bad one breaks the carrier. */
  receive(data: unknown): void {
    if (this.#error) return;
    this.heardAt = performance.now();
    try {
      this.#take(data);
    } catch (thrown) {
      if (!(thrown instanceof ProtocolError)) throw thrown;
      this.#transport.close(CLOSE_PROTOCOL, 'protocol error');
      this.broken(new CarrierError(`The server broke the protocol: ${thrown.message}`, CLOSE_PROTOCOL));
    }
  }

  /** Ends the carrier and every stream with the error. Later calls do nothing. */
  broken(error: CarrierError): void {
    if (this.#error) return;
    this.#error = error;
    const readers = [...this.#readers.values()];
    this.#readers.clear();
    this.#parts.clear();
    this.#cancelled.clear();
    // The owner first: a reader must not open its stream again on this carrier.
    for (const f of this.#listeners.splice(0)) f(error);
    for (const reader of readers) reader.error(error);
  }

  #send(frame: ClientFrame): void {
    if (!this.#error) this.#transport.send(JSON.stringify(frame));
  }

  #take(data: unknown): void {
    if (typeof data !== 'string') throw new ProtocolError('a frame is not text');
    const frame = serverFrame(parse(data));
    const { stream } = frame;
    const reader = this.#readers.get(stream);
    const over = frame.type === 'end' || frame.type === 'error';
    if (!reader) {
      if (!this.#cancelled.has(stream)) throw new ProtocolError(`stream ${stream} is not open`);
      if (over) this.#cancelled.delete(stream);
      return;
    }
    if (over) {
      this.#readers.delete(stream);
      this.#parts.delete(stream);
    }
    switch (frame.type) {
      case 'item':
        if (this.#parts.has(stream)) throw new ProtocolError(`stream ${stream} has an item between parts`);
        reader.item(frame.value);
        return;
      case 'part': {
        const parts = this.#parts.get(stream) ?? [];
        parts.push(frame.text);
        if (!frame.last) {
          this.#parts.set(stream, parts);
          return;
        }
        this.#parts.delete(stream);
        reader.item(parse(parts.join('')));
        return;
      }
      case 'end':
        reader.end();
        return;
      case 'error':
        reader.error(new ApiError(errorDocument(frame.error)));
    }
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolError('a frame is not JSON');
  }
}
