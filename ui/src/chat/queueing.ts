// The order of a queue and the words for its state.

/** The ids with one moved to a place, undefined when nothing changes. */
export function move(ids: readonly string[], id: string, to: number): string[] | undefined {
  const from = ids.indexOf(id);
  if (from < 0 || to < 0 || to >= ids.length || to === from) return undefined;
  const next = ids.filter((each) => each !== id);
  next.splice(to, 0, id);
  return next;
}

/** Why a queue is paused. */
export function pauseWords(reason: string | undefined): string {
  return reason ? `paused: ${reason}` : 'paused';
}
