/**
 * Scores how well a text fits what was typed, undefined when it does not: every
 * character occurs in order. Beginnings of words and runs count more.
 */
export function score(query: string, text: string): number | undefined {
  const q = query.toLowerCase().replace(/\s+/g, '');
  const t = text.toLowerCase();
  if (q === '') return 0;
  let total = 0;
  let at = 0;
  let run = 0;
  for (const c of q) {
    const next = t.indexOf(c, at);
    if (next < 0) return undefined;
    run = next === at ? run + 1 : 0;
    const begins = next === 0 || /[\s/_.\-:]/.test(t[next - 1]!);
    total += 1 + run * 2 + (begins ? 4 : 0) - Math.min(next - at, 10) * 0.1;
    at = next + 1;
  }
  return total - t.length * 0.01;
}

/** The entries that fit, the best first; of equal ones the order stays. */
export function best<T>(query: string, entries: readonly T[], text: (entry: T) => string, max: number): T[] {
  return entries
    .map((entry) => ({ entry, s: score(query, text(entry)) }))
    .filter((e): e is { entry: T; s: number } => e.s !== undefined)
    .sort((a, b) => b.s - a.s)
    .slice(0, max)
    .map((e) => e.entry);
}
