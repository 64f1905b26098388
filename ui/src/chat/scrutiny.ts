// What a reader has to see of a command before allowing it.

import type { ToolInput } from '../wire/types';

/** A piece of text; a mark stands for a character that would not be seen, or would move others. */
export interface Piece {
  readonly text: string;
  readonly mark: boolean;
}

/**
 * Characters that hide or reorder: controls (but line ends and tabs), format
 * characters such as bidi overrides, zero widths and tags, separators of lines,
 * variation selectors, fillers that are drawn empty, and halves of pairs.
 */
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u115f\u1160\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}\p{Cf}\p{Cs}]/gu;

/** Cuts text into pieces with the unseen characters named. */
export function pieces(text: string): Piece[] {
  const out: Piece[] = [];
  let at = 0;
  for (const m of text.matchAll(UNSEEN)) {
    // A carriage return before a line end is how some write line ends.
    if (m[0] === '\r' && text[m.index + 1] === '\n') {
      if (m.index > at) out.push({ text: text.slice(at, m.index), mark: false });
      at = m.index + 1;
      continue;
    }
    if (m.index > at) out.push({ text: text.slice(at, m.index), mark: false });
    out.push({ text: `U+${m[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`, mark: true });
    at = m.index + m[0].length;
  }
  if (at < text.length) out.push({ text: text.slice(at), mark: false });
  return out;
}

/** Things worth a second look. A mark informs; it never decides. */
export type Mark = 'sudo' | 'pipe-to-shell' | 'outside-project' | 'unseen' | 'background';

const SHELLS = String.raw`(?:\S*\/)?(?:ba|z|k|da|a|fi|c|tc)?sh|(?:\S*\/)?(?:python|node|perl|ruby|php)[\d.]*|source|eval`;
const PIPE_TO_SHELL = new RegExp(
  String.raw`\|&?\s*(?:(?:sudo|env|exec|command|nohup|xargs)\s+(?:-\S+\s+|\w+=\S*\s+)*)*(?:${SHELLS})(?=\s|$|[;&|)])` +
    String.raw`|(?:^|[\s;&|(])(?:${SHELLS})\s+(?:-c\s+)?["']?(?:<\(|\$\(|` + '`' + String.raw`)\s*(?:curl|wget|fetch)\b`,
  'm',
);
const SUDO = /(?:^|[\s;&|(`])(?:\S*\/)?(?:sudo|doas|pkexec|su)(?=\s|$)/m;

/** Finds what is worth a second look in the input of a tool. */
export function marks(input: ToolInput, project: string): Mark[] {
  const out: Mark[] = [];
  const command = input.command ?? '';
  if (SUDO.test(command)) out.push('sudo');
  if (PIPE_TO_SHELL.test(command)) out.push('pipe-to-shell');
  if (outside(command, project, [input.path, input.cwd, ...(input.paths ?? [])])) out.push('outside-project');
  if (input.background) out.push('background');
  const texts = [command, input.path ?? '', input.url ?? '', input.query ?? '', ...(input.paths ?? [])];
  if (texts.some((t) => pieces(t).some((p) => p.mark))) out.push('unseen');
  return out;
}

/** Directories that hold programs and no data of anybody. */
const SYSTEM = /^\/(?:dev\/(?:null|zero|stdin|stdout|stderr|tty|fd\/\d+)|usr(?:\/local)?\/s?bin\/\S*|s?bin\/\S*)$/;

function outside(command: string, project: string, paths: readonly (string | undefined)[]): boolean {
  for (const p of paths) if (p !== undefined && leaves(p, project)) return true;
  // Words of the command that look like paths. Addresses are none.
  for (const word of command.split(/[\s;|&<>()"'`=]+/)) {
    if (/^(?:\/[\w.~-]|~(?:\/|$)|\.\.(?:\/|$))/.test(word) || word.includes('/../')) {
      if (!SYSTEM.test(word) && leaves(word, project)) return true;
    }
  }
  return false;
}

function leaves(path: string, project: string): boolean {
  if (path === '~' || path.startsWith('~/')) return true;
  const base = resolve(project);
  const full = resolve(path.startsWith('/') ? path : `${project}/${path}`);
  return base !== '' && full !== base && !full.startsWith(`${base}/`);
}

function resolve(path: string): string {
  const out: string[] = [];
  for (const part of path.split('/')) {
    if (part === '..') out.pop();
    else if (part !== '' && part !== '.') out.push(part);
  }
  return `/${out.join('/')}`;
}

/** Above this many lines a request is folded, and its Allow says so. */
export const FOLD_LINES = 30;

/** How many lines a folded request does not show; 0 when it is shown whole. */
export function hiddenLines(lines: number, open: boolean): number {
  return open || lines <= FOLD_LINES ? 0 : lines - FOLD_LINES;
}
