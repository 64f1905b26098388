/** Where a layer goes, in CSS pixels of the viewport. */
export interface Place {
  left: number;
  top: number;
  /** The most height there is room for. */
  maxHeight: number;
}

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The room kept to the edges of the viewport. */
const MARGIN = 8;
/** The room between the anchor and the layer. */
const GAP = 4;

/**
 * Places a layer of the given size at an anchor: below it, or above when there
 * is more room; its start at the anchor's start, or its end at the anchor's end.
 */
export function place(anchor: Box, size: { width: number; height: number }, view: { width: number; height: number }, align: 'start' | 'end' = 'start', prefer: 'below' | 'above' = 'below'): Place {
  const below = view.height - anchor.top - anchor.height - GAP - MARGIN;
  const above = anchor.top - GAP - MARGIN;
  const fits = prefer === 'below' ? below >= size.height : above >= size.height;
  const down = fits ? prefer === 'below' : below >= above;
  const maxHeight = Math.max(0, down ? below : above);
  const height = Math.min(size.height, maxHeight);
  const wanted = align === 'start' ? anchor.left : anchor.left + anchor.width - size.width;
  const left = Math.max(MARGIN, Math.min(wanted, view.width - size.width - MARGIN));
  const top = down ? anchor.top + anchor.height + GAP : anchor.top - GAP - height;
  return { left, top, maxHeight };
}
