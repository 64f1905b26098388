import { describe, expect, it } from 'vitest';
import { lineText, MAX_LINE, parseAnsi, stripAnsi, type Style } from './sgr';

function styled(text: string): [string, Style][] {
  return parseAnsi(text).flatMap((line) => line.map((r): [string, Style] => [r.text, r.style]));
}

describe('colours and weights', () => {
  const cases: [name: string, sgr: string, style: Style][] = [
    ['sixteen colours', '31', { fg: 1 }],
    ['bright colours', '94;105', { fg: 12, bg: 13 }],
    ['weights', '1;2;3;4;7;9', { bold: true, dim: true, italic: true, underline: true, inverse: true, strike: true }],
    ['256 colours, themed', '38;5;9', { fg: 9 }],
    ['256 colours, cube', '38;5;208', { fg: [255, 135, 0] }],
    ['256 colours, grey', '48;5;255', { bg: [238, 238, 238] }],
    ['true colour', '38;2;1;2;3;48;2;4;5;6', { fg: [1, 2, 3], bg: [4, 5, 6] }],
    ['true colour with colons', '38:2::10:20:30', { fg: [10, 20, 30] }],
    ['true colour with colons and no colour space', '38:2:10:20:30', { fg: [10, 20, 30] }],
    ['curly underline', '4:3', { underline: true }],
    ['reset inside', '1;31;0;32', { fg: 2 }],
    ['no parameters', '', {}],
    ['each off', '1;3;4;7;9;31;41;22;23;24;27;29;39;49', {}],
    ['concealed text is shown', '8', {}],
    ['a colour out of range', '38;2;999;0;0', {}],
    ['a colour that breaks off', '1;38;5', { bold: true }],
  ];
  it.each(cases)('%s', (_name, sgr, style) => {
    expect(styled(`\x1b[${sgr}mx`)).toEqual([['x', style]]);
  });
  it('keeps the style over lines and ends it with the text', () => {
    expect(parseAnsi('\x1b[31ma\nb').map((l) => l[0]!.style.fg)).toEqual([1, 1]);
    expect(styled('c')).toEqual([['c', {}]]);
  });
});

describe('lines', () => {
  it.each([
    ['a\nb\n', ['a', 'b']],
    ['a\n\nb', ['a', '', 'b']],
    ['', ['']],
    ['a\r\nb', ['a', 'b']],
    ['10%\r20%\r100%', ['100%']],
    ['hello\rJ', ['Jello']],
    ['a long line\r\x1b[Kdone', ['done']],
    ['abc\x1b[2Kd', ['   d']],
    ['ab\bc', ['ac']],
    ['a\tb', ['a       b']],
    ['😀😀\rx', ['x😀']],
  ])('%j', (text, lines) => {
    expect(parseAnsi(text).map(lineText)).toEqual(lines);
  });
  it('breaks an endless line', () => {
    const lines = parseAnsi('x'.repeat(2 * MAX_LINE + 1)).map(lineText);
    expect(lines.map((l) => l.length)).toEqual([MAX_LINE, MAX_LINE, 1]);
  });
  it('never breaks a surrogate pair', () => {
    const text = 'x' + '😀'.repeat(MAX_LINE);
    const lines = parseAnsi(text).map(lineText);
    expect(lines.join('')).toBe(text);
    for (const l of lines) expect(l.isWellFormed()).toBe(true);
  });
});

describe('hostile output', () => {
  it.each([
    ['a title', '\x1b]0;pwned\x07after', 'after'],
    ['a link', '\x1b]8;;javascript:alert(1)\x1b\\text\x1b]8;;\x1b\\', 'text'],
    ['a clipboard write', '\x1b]52;c;cHduZWQ=\x07after', 'after'],
    ['a device string', '\x1bP+q544e\x1b\\after', 'after'],
    ['8-bit strings', '\x9d0;t\x9cafter', 'after'],
    ['8-bit CSI', '\x9b31mafter', 'after'],
    ['cursor movement', '\x1b[2J\x1b[10;10Hafter', 'after'],
    ['private modes', '\x1b[?1049h\x1b[?25lafter', 'after'],
    ['character sets', '\x1b(0after', 'after'],
    ['a reset of the terminal', '\x1bcafter', 'after'],
    ['a query', '\x1b[6nafter', 'after'],
    ['an unfinished string ends with its line', '\x1b]0;hidden\nrm -rf /', '\nrm -rf /'],
    ['an unfinished sequence', 'a\x1b[31', 'a'],
    ['an escape at the end', 'a\x1b', 'a'],
    ['a control character is seen', 'a\x00\x07b\x7f', 'a␀␇b␡'],
    ['a cancelled string', '\x1b]0;x\x18after', '␘after'],
  ])('%s', (_name, text, want) => {
    expect(stripAnsi(text)).toBe(want);
  });

  it('leaves no control character, whatever comes', () => {
    // A small deterministic generator: the failure can be run again.
    let seed = 42;
    const random = (n: number) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
    const alphabet = ['\x1b', '[', ']', ';', ':', '3', '8', '2', 'm', 'K', '\x07', '\\', '\r', '\b', '\t', '\x9b', '\x9d', 'é', '😀', '\ud800', 'P', '(', '?', ' '];
    for (let round = 0; round < 2000; round++) {
      let text = '';
      for (let n = random(40); n > 0; n--) text += alphabet[random(alphabet.length)];
      expect(stripAnsi(text), JSON.stringify(text)).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
    }
  });

  it('takes linear time', () => {
    const begun = performance.now();
    parseAnsi('\x1b['.repeat(500_000));
    parseAnsi('\x1b]'.repeat(500_000));
    parseAnsi('\x1b[' + '1;'.repeat(500_000) + 'm');
    parseAnsi(('x'.repeat(80) + '\r').repeat(10_000));
    expect(performance.now() - begun).toBeLessThan(3000);
  });
});
