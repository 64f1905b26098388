// Program output as lines of styled runs.
//
// Only SGR (colour and weight), carriage return, backspace, tab and "erase in
// line" have an effect. Every other escape sequence, OSC links and titles and
// clipboard writes among them, is swallowed; a control character that belongs
// to no sequence becomes visible. "Concealed" text is shown: output must not
// be able to hide from its reader.

/** A colour: an index into the 16 themed ones, or red, green and blue. */
export type Colour = number | readonly [r: number, g: number, b: number];

/** How a run of text is drawn. Absent members mean the default. */
export interface Style {
  readonly fg?: Colour;
  readonly bg?: Colour;
  readonly bold?: true;
  readonly dim?: true;
  readonly italic?: true;
  readonly underline?: true;
  readonly strike?: true;
  readonly inverse?: true;
}

/** A piece of a line with one style. */
export interface Run {
  readonly text: string;
  readonly style: Style;
}

/** A line without its end. */
export type Line = readonly Run[];

const PLAIN: Style = Object.freeze({});
const TAB = 8;
/** A line longer than this goes on in the next one: layout of one endless line is slow in every browser. */
export const MAX_LINE = 10_000;
/** Parameters of one SGR sequence beyond this are ignored; real ones have at most a dozen. */
const MAX_PARAMETERS = 32;

const ESC = '\x1b';

/** Parses output. The state of the style does not outlive the text. */
export function parseAnsi(text: string): Line[] {
  const lines: Line[] = [];
  let pen: Style = PLAIN;
  let line = new LineBuffer();
  let i = 0;
  while (i < text.length) {
    const plain = plainEnd(text, i);
    if (plain > i) {
      let from = i;
      while (from < plain) {
        let to = Math.min(plain, from + Math.max(0, MAX_LINE - line.column));
        // Never between the halves of a surrogate pair.
        if (to < plain && to > from && isHighSurrogate(text.charCodeAt(to - 1))) to--;
        if (to === from) {
          lines.push(line.runs());
          line = new LineBuffer();
          continue;
        }
        line.write(text.slice(from, to), pen);
        from = to;
      }
      i = plain;
      continue;
    }
    const c = text[i]!;
    if (c === '\n') {
      lines.push(line.runs());
      line = new LineBuffer();
      i++;
    } else if (c === '\r') {
      line.column = 0;
      i++;
    } else if (c === '\b') {
      line.column = Math.max(0, line.column - 1);
      i++;
    } else if (c === '\t') {
      line.write(' '.repeat(TAB - (line.column % TAB)), pen);
      i++;
    } else if (c === ESC || c === '\x9b' || isStringIntroducer(c)) {
      const s = sequence(text, i);
      if (s.kind === 'sgr') pen = applySgr(pen, s.parameters);
      else if (s.kind === 'erase') line.erase(s.mode);
      i = s.end;
    } else {
      line.write(visible(c), pen);
      i++;
    }
  }
  if (line.length > 0 || text === '' || !text.endsWith('\n')) lines.push(line.runs());
  return lines;
}

/** Returns the text of a line without style. */
export function lineText(line: Line): string {
  return line.map((r) => r.text).join('');
}

/** Returns text without escape sequences, for copying, titles and search. */
export function stripAnsi(text: string): string {
  return parseAnsi(text).map(lineText).join('\n');
}

/** Returns the printable stand-in of a control character. */
export function visible(c: string): string {
  const code = c.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  return '\ufffd';
}

/** The index after the run of ordinary characters that begins at i. */
function plainEnd(text: string, i: number): number {
  while (i < text.length) {
    const c = text.charCodeAt(i);
    if (c < 0x20 || (c >= 0x7f && c <= 0x9f)) break;
    i++;
  }
  return i;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/** DCS, SOS, OSC, PM and APC as single characters. */
function isStringIntroducer(c: string): boolean {
  return c === '\x90' || c === '\x98' || c === '\x9d' || c === '\x9e' || c === '\x9f';
}

type Sequence =
  | { kind: 'sgr'; parameters: number[]; end: number }
  | { kind: 'erase'; mode: number; end: number }
  | { kind: 'other'; end: number };

/** Reads the escape sequence at i. A broken one ends where it breaks, so that it cannot swallow what follows. */
function sequence(text: string, i: number): Sequence {
  let introducer = text[i]!;
  let at = i + 1;
  if (introducer === ESC) {
    introducer = text[at] ?? '';
    at++;
    if (introducer === '[') return csi(text, at);
    if (introducer !== '' && ']P^_X'.includes(introducer)) return { kind: 'other', end: stringEnd(text, at) };
    if (introducer >= ' ' && introducer <= '/') {
      // ESC with intermediates, such as a choice of character set.
      while (at < text.length && text[at]! >= ' ' && text[at]! <= '/') at++;
      return { kind: 'other', end: Math.min(text.length, at < text.length && text[at]! >= '0' && text[at]! <= '~' ? at + 1 : at) };
    }
    // A control character after ESC cancels it and keeps its own effect.
    const two = introducer >= '0' && introducer <= '~';
    return { kind: 'other', end: two ? at : i + 1 };
  }
  if (introducer === '\x9b') return csi(text, at);
  return { kind: 'other', end: stringEnd(text, at) };
}

/** A control string ends with BEL or ST, and at the latest with the line. */
function stringEnd(text: string, at: number): number {
  for (; at < text.length; at++) {
    const c = text[at]!;
    if (c === '\x07' || c === '\x9c') return at + 1;
    if (c === ESC) return text[at + 1] === '\\' ? at + 2 : at;
    if (c === '\n' || c === '\x18' || c === '\x1a') return at;
  }
  return at;
}

function csi(text: string, at: number): Sequence {
  const begin = at;
  while (at < text.length && text[at]! >= '0' && text[at]! <= '?') at++;
  const parametersEnd = at;
  while (at < text.length && text[at]! >= ' ' && text[at]! <= '/') at++;
  const final = text[at];
  if (final === undefined || final < '@' || final > '~') return { kind: 'other', end: at };
  const end = at + 1;
  const raw = text.slice(begin, parametersEnd);
  if (parametersEnd !== at || /[<=>?]/.test(raw)) return { kind: 'other', end };
  if (final === 'm') return { kind: 'sgr', parameters: numbers(raw), end };
  if (final === 'K') return { kind: 'erase', mode: numbers(raw)[0] ?? 0, end };
  return { kind: 'other', end };
}

/**
 * Splits parameters at ; and : alike. The colon form of a colour may have a
 * colour space between 2 and the components; it is taken out here.
 */
function numbers(raw: string): number[] {
  const out: number[] = [];
  for (const group of raw.split(';', MAX_PARAMETERS)) {
    const parts = group.split(':', MAX_PARAMETERS).map((p) => (p === '' ? 0 : Number.parseInt(p, 10) % 1000));
    if ((parts[0] === 38 || parts[0] === 48) && parts[1] === 2 && parts.length >= 6) parts.splice(2, 1);
    // 4:0 is "no underline" and 4:3 a curly one, not italics.
    if (parts[0] === 4 && parts.length > 1) out.push(parts[1] === 0 ? 24 : 4);
    else out.push(...parts);
  }
  return out.slice(0, MAX_PARAMETERS);
}

type Pen = { -readonly [K in keyof Style]: Style[K] };

function applySgr(pen: Style, parameters: number[]): Style {
  const next: Pen = { ...pen };
  if (parameters.length === 0) return PLAIN;
  for (let i = 0; i < parameters.length; i++) {
    const p = parameters[i]!;
    if (p === 38 || p === 48) {
      const [colour, used] = extended(parameters, i + 1);
      i += used;
      if (colour !== undefined) next[p === 38 ? 'fg' : 'bg'] = colour;
      continue;
    }
    one(next, p);
  }
  return next;
}

function one(pen: Pen, p: number): void {
  switch (p) {
    case 0:
      for (const k of Object.keys(pen) as (keyof Pen)[]) delete pen[k];
      return;
    case 1: pen.bold = true; return;
    case 2: pen.dim = true; return;
    case 3: pen.italic = true; return;
    case 4: case 21: pen.underline = true; return;
    case 7: pen.inverse = true; return;
    case 9: pen.strike = true; return;
    case 22: delete pen.bold; delete pen.dim; return;
    case 23: delete pen.italic; return;
    case 24: delete pen.underline; return;
    case 27: delete pen.inverse; return;
    case 29: delete pen.strike; return;
    case 39: delete pen.fg; return;
    case 49: delete pen.bg; return;
  }
  if (p >= 30 && p <= 37) pen.fg = p - 30;
  else if (p >= 40 && p <= 47) pen.bg = p - 40;
  else if (p >= 90 && p <= 97) pen.fg = p - 90 + 8;
  else if (p >= 100 && p <= 107) pen.bg = p - 100 + 8;
}

/** Reads 5;N or 2;R;G;B. It returns how many parameters it took. */
function extended(parameters: number[], at: number): [Colour | undefined, number] {
  if (parameters[at] === 5) {
    const n = parameters[at + 1];
    return [n === undefined || n > 255 ? undefined : indexed(n), 2];
  }
  if (parameters[at] === 2) {
    const rgb = parameters.slice(at + 1, at + 4);
    if (rgb.length < 3 || rgb.some((c) => c > 255)) return [undefined, 4];
    return [[rgb[0]!, rgb[1]!, rgb[2]!], 4];
  }
  return [undefined, 1];
}

/** The colour of the 256-colour table: 16 themed, a cube of 6×6×6, 24 greys. */
function indexed(n: number): Colour {
  if (n < 16) return n;
  if (n >= 232) {
    const grey = 8 + (n - 232) * 10;
    return [grey, grey, grey];
  }
  const level = (v: number) => (v === 0 ? 0 : 55 + v * 40);
  const cube = n - 16;
  return [level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)];
}

/**
 * One line being written. Runs are enough until something moves the column
 * back; then the line becomes cells, so that a progress bar overwrites itself.
 */
class LineBuffer {
  column = 0;
  private appended: Run[] = [];
  private width = 0;
  private cells: { text: string; style: Style }[] | undefined;

  get length(): number {
    return this.cells ? this.cells.length : this.width;
  }

  write(text: string, style: Style): void {
    if (!this.cells && this.column === this.width) {
      const last = this.appended.at(-1);
      if (last && last.style === style) this.appended[this.appended.length - 1] = { text: last.text + text, style };
      else this.appended.push({ text, style });
      this.width += text.length;
      this.column = this.width;
      return;
    }
    const cells = this.toCells();
    // Code units are enough as cells as long as a pair stays together.
    for (let i = 0; i < text.length; i++) {
      const pair = isHighSurrogate(text.charCodeAt(i)) && i + 1 < text.length;
      const unit = pair ? text.slice(i, i + 2) : text[i]!;
      if (pair) i++;
      while (cells.length < this.column) cells.push({ text: ' ', style: PLAIN });
      cells[this.column++] = { text: unit, style };
    }
  }

  erase(mode: number): void {
    const cells = this.toCells();
    if (mode === 2) cells.length = 0;
    else if (mode === 0) cells.length = Math.min(cells.length, this.column);
    else if (mode === 1) for (let i = 0; i <= this.column && i < cells.length; i++) cells[i] = { text: ' ', style: PLAIN };
  }

  runs(): Line {
    if (!this.cells) return this.appended;
    const out: { text: string; style: Style }[] = [];
    for (const c of this.cells) {
      const last = out.at(-1);
      if (last && last.style === c.style) last.text += c.text;
      else out.push({ ...c });
    }
    return out;
  }

  private toCells(): { text: string; style: Style }[] {
    if (this.cells) return this.cells;
    const cells: { text: string; style: Style }[] = [];
    for (const run of this.appended) for (const unit of run.text) cells.push({ text: unit, style: run.style });
    // The column counted code units so far; it is at the end of the line or was
    // set to a smaller value.
    this.column = Math.min(this.column, cells.length);
    this.cells = cells;
    return cells;
  }
}
