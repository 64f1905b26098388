// Diffs as data: reading unified diffs and patches, comparing two texts, and
// marking the words that changed within a line.

export type LineKind = 'same' | 'add' | 'remove';

export interface DiffLine {
  readonly kind: LineKind;
  readonly text: string;
  /** Line numbers, from 1; absent on the side where the line is not, and where they are not known. */
  readonly old?: number | undefined;
  readonly new?: number | undefined;
  /** The parts of the text that changed, as pairs of begin and end. */
  marks?: readonly (readonly [number, number])[];
}

export interface Hunk {
  /** What stands after the second @@. */
  readonly section: string;
  readonly lines: readonly DiffLine[];
}

export interface FileDiff {
  readonly path: string;
  /** Set when the file was renamed, created or deleted. */
  readonly note?: string;
  readonly hunks: readonly Hunk[];
}

/** The size of a change. */
export interface Stat {
  readonly added: number;
  readonly removed: number;
}

/** Comparing two texts stops looking for what is common above this many steps. */
const MAX_STEPS = 2_000_000;
/** Words are compared in lines of at most this many. */
const MAX_WORDS = 200;

/** Counts the changed lines. */
export function stat(files: readonly FileDiff[]): Stat {
  let added = 0;
  let removed = 0;
  for (const f of files) for (const h of f.hunks) for (const l of h.lines) {
    if (l.kind === 'add') added++;
    else if (l.kind === 'remove') removed++;
  }
  return { added, removed };
}

/** Reads a unified diff or a patch in the "*** Begin Patch" form. Text that is neither gives no file. */
export function parseDiff(text: string): FileDiff[] {
  return /^\*\*\* (Begin Patch|Update File|Add File|Delete File)/m.test(text) ? parsePatch(text) : parseUnified(text);
}

interface OpenFile {
  path: string;
  note?: string;
  hunks: { section: string; lines: DiffLine[] }[];
}

function parseUnified(text: string): FileDiff[] {
  const files: OpenFile[] = [];
  let file: OpenFile | undefined;
  let oldPath = '';
  let oldLeft = 0;
  let newLeft = 0;
  let o = 0;
  let n = 0;
  for (const line of splitLines(text)) {
    const hunk = file?.hunks.at(-1);
    if (hunk && (oldLeft > 0 || newLeft > 0)) {
      const body = line.slice(1);
      if (line.startsWith('+')) hunk.lines.push({ kind: 'add', text: body, new: n++ }), newLeft--;
      else if (line.startsWith('-')) hunk.lines.push({ kind: 'remove', text: body, old: o++ }), oldLeft--;
      else if (!line.startsWith('\\')) hunk.lines.push({ kind: 'same', text: body, old: o++, new: n++ }), oldLeft--, newLeft--;
      continue;
    }
    const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/.exec(line);
    if (head) {
      file ??= push(files, '');
      [o, n] = [Number(head[1]), Number(head[3])];
      [oldLeft, newLeft] = [Number(head[2] ?? 1), Number(head[4] ?? 1)];
      file.hunks.push({ section: head[5]!, lines: [] });
    } else if (line.startsWith('--- ')) {
      oldPath = pathOf(line.slice(4));
      file = undefined;
    } else if (line.startsWith('+++ ')) {
      const path = pathOf(line.slice(4));
      file = push(files, path || oldPath);
      if (oldPath === '') file.note = 'new file';
      else if (path === '') file.note = 'deleted';
      else if (oldPath !== path) file.note = `was ${oldPath}`;
    } else if (line.startsWith('diff ')) {
      file = undefined;
    } else if (line.startsWith('Binary files ')) {
      file = push(files, pathOf(/ and (.*) differ$/.exec(line)?.[1] ?? ''));
      file.note = 'binary';
    }
  }
  return files.map(marked);
}

function parsePatch(text: string): FileDiff[] {
  const files: OpenFile[] = [];
  let file: OpenFile | undefined;
  for (const line of splitLines(text)) {
    const head = /^\*\*\* (Update|Add|Delete) File: (.*)$/.exec(line);
    if (head) {
      file = push(files, head[2]!);
      if (head[1] === 'Add') file.note = 'new file';
      if (head[1] === 'Delete') file.note = 'deleted';
    } else if (line.startsWith('*** Move to: ') && file) {
      file.note = `moves to ${line.slice(13)}`;
    } else if (line.startsWith('*** ')) {
      if (!line.startsWith('*** End of File')) file = undefined;
    } else if (!file) {
      continue;
    } else if (line.startsWith('@@')) {
      file.hunks.push({ section: line.slice(2).trim(), lines: [] });
    } else {
      let hunk = file.hunks.at(-1);
      if (!hunk) file.hunks.push((hunk = { section: '', lines: [] }));
      const kind = line.startsWith('+') ? 'add' : line.startsWith('-') ? 'remove' : 'same';
      hunk.lines.push({ kind, text: line.slice(1) });
    }
  }
  return files.map(marked);
}

function push(files: OpenFile[], path: string): OpenFile {
  const file: OpenFile = { path, hunks: [] };
  files.push(file);
  return file;
}

/** The path of a file line: without the prefix of git and a time stamp; empty for /dev/null. */
function pathOf(text: string): string {
  const path = text.split('\t')[0]!.trim();
  return path === '/dev/null' ? '' : path.replace(/^[ab]\//, '');
}

/** Compares two texts by lines. The numbers count from the beginning of the texts. */
export function compare(path: string, before: string, after: string, context = 3): FileDiff {
  const lines = compareLines(splitLines(before), splitLines(after));
  return marked({ path, hunks: cutContext(lines, context) });
}

/** Splits at line ends; a final one makes no line. */
export function splitLines(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.map((l) => (l.endsWith('\r') ? l.slice(0, -1) : l));
}

function compareLines(a: string[], b: string[]): DiffLine[] {
  const out: DiffLine[] = [];
  let o = 1;
  let n = 1;
  for (const [kind, text] of script(a, b)) {
    if (kind === 'same') out.push({ kind, text, old: o++, new: n++ });
    else if (kind === 'remove') out.push({ kind, text, old: o++ });
    else out.push({ kind, text, new: n++ });
  }
  return out;
}

/** The shortest edit script (Myers), or "everything changed" when it would take too long. */
function script(a: readonly string[], b: readonly string[]): [LineKind, string][] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let endA = a.length;
  let endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) endA--, endB--;
  const same = (lines: readonly string[]): [LineKind, string][] => lines.map((l) => ['same', l]);
  return [...same(a.slice(0, start)), ...middle(a.slice(start, endA), b.slice(start, endB)), ...same(a.slice(endA))];
}

function middle(a: readonly string[], b: readonly string[]): [LineKind, string][] {
  const everything = (): [LineKind, string][] => [...a.map((l): [LineKind, string] => ['remove', l]), ...b.map((l): [LineKind, string] => ['add', l])];
  if (a.length === 0 || b.length === 0) return everything();
  const max = a.length + b.length;
  let v = new Map<number, number>([[1, 0]]);
  const trace: Map<number, number>[] = [];
  let steps = 0;
  for (let d = 0; d <= max; d++) {
    trace.push(v);
    const next = new Map(v);
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1)) ? v.get(k + 1)! : v.get(k - 1)! + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) x++, y++, steps++;
      next.set(k, x);
      if (x >= a.length && y >= b.length) return walkBack(a, b, trace, d);
    }
    // The trace copies what it has so far, which counts as well.
    steps += 3 * d + 1;
    if (steps > MAX_STEPS) return everything();
    v = next;
  }
  return everything();
}

function walkBack(a: readonly string[], b: readonly string[], trace: readonly Map<number, number>[], depth: number): [LineKind, string][] {
  const out: [LineKind, string][] = [];
  let x = a.length;
  let y = b.length;
  for (let d = depth; d >= 0; d--) {
    const v = trace[d]!;
    const k = x - y;
    const down = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : v.get(from)!;
    const fromY = d === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY && x > 0 && y > 0) out.push(['same', a[--x]!]), y--;
    if (d > 0) {
      if (down) out.push(['add', b[--y]!]);
      else out.push(['remove', a[--x]!]);
    }
  }
  return out.reverse();
}

function cutContext(lines: readonly DiffLine[], context: number): OpenFile['hunks'] {
  const hunks: OpenFile['hunks'] = [];
  let last = -Infinity;
  lines.forEach((line, i) => {
    if (line.kind === 'same') return;
    const from = Math.max(0, i - context);
    if (from > last + 1 || hunks.length === 0) {
      hunks.push({ section: '', lines: [] });
      last = from - 1;
    }
    const to = Math.min(lines.length - 1, i + context);
    for (let j = last + 1; j <= to; j++) hunks.at(-1)!.lines.push(lines[j]!);
    last = Math.max(last, to);
  });
  return hunks;
}

/** Marks the words that changed where as many lines were removed as were added in their place. */
function marked(file: OpenFile): FileDiff {
  for (const { lines } of file.hunks) {
    for (let i = 0; i < lines.length; ) {
      const removed = run(lines, i, 'remove');
      const added = run(lines, i + removed, 'add');
      if (removed > 0 && removed === added) {
        for (let j = 0; j < removed; j++) markWords(lines[i + j]!, lines[i + removed + j]!);
      }
      i += Math.max(1, removed + added);
    }
  }
  return file;
}

function run(lines: readonly DiffLine[], from: number, kind: LineKind): number {
  let n = 0;
  while (lines[from + n]?.kind === kind) n++;
  return n;
}

function markWords(before: DiffLine, after: DiffLine): void {
  const a = words(before.text);
  const b = words(after.text);
  if (a.length > MAX_WORDS || b.length > MAX_WORDS) return;
  const edits = script(a, b);
  const kept = edits.reduce((n, [kind, w]) => (kind === 'same' && w.trim() !== '' ? n + w.length : n), 0);
  // Marking lines that have little in common only makes them harder to read.
  if (kept * 3 < Math.max(before.text.trim().length, after.text.trim().length)) return;
  before.marks = ranges(edits, 'remove');
  after.marks = ranges(edits, 'add');
}

function words(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\s+|./gsu) ?? [];
}

function ranges(edits: readonly [LineKind, string][], kind: LineKind): [number, number][] {
  const out: [number, number][] = [];
  let at = 0;
  for (const [k, w] of edits) {
    if (k !== 'same' && k !== kind) continue;
    if (k === kind) {
      const last = out.at(-1);
      if (last && last[1] === at) last[1] = at + w.length;
      else out.push([at, at + w.length]);
    }
    at += w.length;
  }
  return out;
}
