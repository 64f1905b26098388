// Following the end of a transcript.

/** How near to the end following begins, in pixels. */
export const FOLLOW_SLACK = 24;

/** Where a scrolled element is. */
export interface Metrics {
  readonly top: number;
  readonly height: number;
  readonly view: number;
}

/**
 * Whether the list sticks to its end. Only the reader turns it off: the
 * element also moves when rows are measured or the pane changes its size.
 */
export class Follow {
  following = true;
  private last: Metrics | undefined;

  /** Takes in a scroll position; reader says that the reader has a hand on the list. */
  scrolled(m: Metrics, reader: boolean): void {
    const last = this.last;
    this.last = m;
    const up = reader && last !== undefined && m.top < last.top - 1 && m.height >= last.height && m.view === last.view;
    if (up) this.following = false;
    else if (distance(m) <= FOLLOW_SLACK && (last === undefined || m.top >= last.top)) this.following = true;
  }

  /** The reader scrolled up with wheel, finger or key; m is where it was. */
  upward(m: Metrics): void {
    if (m.height > m.view) this.following = false;
  }

  /** The reader asked for the end. */
  resume(): void {
    this.following = true;
    // The list may be another one now.
    this.last = undefined;
  }

  /** The reader went to some place. */
  leave(): void {
    this.following = false;
  }
}

function distance(m: Metrics): number {
  return m.height - m.view - m.top;
}
