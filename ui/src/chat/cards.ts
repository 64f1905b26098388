// The state of the requests to the user of one chat. Cards are drawn from
// control.follow alone; what this browser did to a request is kept beside it,
// keyed by the occurrence, so that two requests of equal text never mix.

import type { Pending } from '../wire/types';

/** What became of an answer given here. */
export type Answer =
  /** On its way. */
  | { readonly state: 'sending'; readonly controlId: string }
  /** The server took it. */
  | { readonly state: 'delivered'; readonly controlId: string }
  /** Nobody knows whether the agent got it. The request is not open again unless it is offered again. */
  | { readonly state: 'unknown'; readonly controlId: string }
  /** It was refused before it had an effect. */
  | { readonly state: 'refused'; readonly controlId: string; readonly message: string }
  /** The link broke while it was sent. The state on the next connection tells what became of it. */
  | { readonly state: 'lost'; readonly controlId: string };

/** How a card is drawn. */
export type CardState =
  | { readonly kind: 'open'; readonly note?: string }
  | { readonly kind: 'answering'; readonly mine: boolean }
  | { readonly kind: 'unknown' };

/** What this browser knows of the requests of a chat. Immutable. */
export interface Cards {
  readonly pending: readonly Pending[];
  readonly answers: ReadonlyMap<string, Answer>;
}

export const NO_CARDS: Cards = { pending: [], answers: new Map() };

/**
 * Takes in the requests of the newest state. Later says that the state is of a
 * connection made after a lost answer, so that it tells what became of it.
 */
export function offered(c: Cards, pending: readonly Pending[], later: boolean): Cards {
  const answers = new Map<string, Answer>();
  for (const p of pending) {
    const a = c.answers.get(p.occurrence);
    if (a === undefined) continue;
    const again = a.controlId !== p.controlId;
    // Offered again, or still open after the link broke: the answer did not arrive.
    if (again || (a.state === 'lost' && later && !p.answering)) {
      answers.set(p.occurrence, { state: 'refused', controlId: p.controlId, message: NOT_DELIVERED });
    } else answers.set(p.occurrence, a);
  }
  // The order in which they were asked; the stream may list them in any.
  return { pending: [...pending].sort((x, y) => x.since - y.since), answers };
}

/** Records what became of an answer. It is ignored when the request is gone or was offered again meanwhile. */
export function answered(c: Cards, occurrence: string, answer: Answer): Cards {
  const p = c.pending.find((each) => each.occurrence === occurrence);
  if (p === undefined || p.controlId !== answer.controlId) return c;
  return { ...c, answers: new Map(c.answers).set(occurrence, answer) };
}

/** How a request is drawn now. */
export function stateOf(c: Cards, p: Pending): CardState {
  const a = c.answers.get(p.occurrence);
  if (a?.state === 'unknown') return { kind: 'unknown' };
  if (a !== undefined && a.state !== 'refused') return { kind: 'answering', mine: true };
  if (p.answering) return { kind: 'answering', mine: false };
  return a === undefined ? { kind: 'open' } : { kind: 'open', note: a.message };
}

export const NOT_DELIVERED = 'Your answer did not arrive. Nothing was allowed.';

/** Keys and clicks count only this long after a card appeared or moved, in milliseconds: what was aimed at something else must not answer it. */
export const GUARD_MS = 400;
/** A card that moved by less did not move, in pixels. */
const MOVE = 4;

/** Keeps answers from being given by accident. */
export class Guard {
  private since: number;
  private top: number | undefined;

  constructor(now: number) {
    this.since = now;
  }

  /** Takes in where the card is on the screen. */
  seen(top: number, now: number): void {
    if (this.top !== undefined && Math.abs(top - this.top) < MOVE) return;
    if (this.top !== undefined) this.since = now;
    this.top = top;
  }

  /** Begins again, for a card that was offered anew. */
  restart(now: number): void {
    this.since = now;
  }

  /** Whether keys and clicks count. */
  armed(now: number): boolean {
    return now - this.since >= GUARD_MS;
  }
}
