// Parts of an answer that are still streaming.

import type { Live, Row } from '../wire/types';

/** A part as it is now. */
export interface Part {
  readonly runId: string;
  readonly partId: string;
  readonly kind: Live['kind'];
  readonly title?: string;
  readonly text: string;
  /** The size of the text in UTF-8, which is what offsets count. */
  readonly bytes: number;
}

/** The parts by key, in the order they appeared. */
export type Parts = ReadonlyMap<string, Part>;

const encoder = new TextEncoder();

/** The key of a part, and of the row that replaces it. */
export function partKey(runId: string | undefined, partId: string): string {
  return `${runId ?? ''}/${partId}`;
}

/**
 * Applies updates. An update that leaves a hole is dropped: what is shown stays
 * true, and the row brings the whole.
 */
export function applyLive(parts: Parts, updates: readonly Live[]): Parts {
  if (updates.length === 0) return parts;
  const next = new Map(parts);
  for (const u of updates) {
    const key = partKey(u.runId, u.partId);
    const before = next.get(key);
    const head = u.offset === 0 ? '' : before && headOf(before, u.offset);
    if (head === undefined) continue;
    const title = u.title ?? before?.title;
    next.set(key, {
      runId: u.runId,
      partId: u.partId,
      kind: u.kind,
      ...(title === undefined ? {} : { title }),
      text: head + u.text,
      bytes: u.offset + size(u.text),
    });
  }
  return next;
}

/** Takes out the parts that the rows replace and those that ended without one. */
export function endParts(parts: Parts, rows: readonly Row[], ended: readonly string[]): Parts {
  if (parts.size === 0) return parts;
  const gone = new Set<string>();
  const names = new Set(ended);
  const over = new Set<string>();
  for (const r of rows) {
    if (r.partId !== undefined) gone.add(partKey(r.runId, r.partId));
    // Nothing of a run streams after its end.
    if (r.kind === 'run' && r.phase !== 'started' && r.runId !== undefined) over.add(r.runId);
  }
  const next = new Map<string, Part>();
  for (const [key, part] of parts) {
    if (!gone.has(key) && !names.has(part.partId) && !over.has(part.runId)) next.set(key, part);
  }
  return next.size === parts.size ? parts : next;
}

/** The first bytes of a part, undefined when it is shorter or the cut is inside a character. */
function headOf(part: Part, bytes: number): string | undefined {
  if (bytes === part.bytes) return part.text;
  if (bytes > part.bytes) return undefined;
  let at = 0;
  for (const c of part.text) {
    if (bytes === 0) break;
    bytes -= size(c);
    at += c.length;
  }
  return bytes === 0 ? part.text.slice(0, at) : undefined;
}

function size(text: string): number {
  // Encoding costs an allocation; most text needs none.
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return encoder.encode(text).length;
  return text.length;
}
