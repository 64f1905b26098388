// Character references. The lexer leaves them as they are written.

/** The named references that occur in prose; a name that is not here stays as written. */
const NAMED: Readonly<Record<string, string>> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', trade: '™',
  hellip: '…', mdash: '—', ndash: '–', lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', laquo: '«', raquo: '»',
  bull: '•', middot: '·', times: '×', divide: '÷', plusmn: '±', deg: '°', para: '¶', sect: '§', euro: '€',
  pound: '£', yen: '¥', cent: '¢', larr: '←', uarr: '↑', rarr: '→', darr: '↓', harr: '↔', rArr: '⇒', lArr: '⇐',
  le: '≤', ge: '≥', ne: '≠', asymp: '≈', infin: '∞', sum: '∑', prod: '∏', radic: '√', part: '∂', int: '∫',
  forall: '∀', exist: '∃', isin: '∈', notin: '∉', and: '∧', or: '∨', cap: '∩', cup: '∪', sub: '⊂', sup: '⊃',
  alpha: 'α', beta: 'β', gamma: 'γ', delta: 'δ', epsilon: 'ε', lambda: 'λ', mu: 'μ', pi: 'π', sigma: 'σ',
  omega: 'ω', Delta: 'Δ', Sigma: 'Σ', Omega: 'Ω', check: '✓', cross: '✗', star: '☆', frac12: '½', frac14: '¼',
  sup2: '²', sup3: '³', micro: 'µ', szlig: 'ß', auml: 'ä', ouml: 'ö', uuml: 'ü', Auml: 'Ä', Ouml: 'Ö', Uuml: 'Ü',
  eacute: 'é', egrave: 'è', agrave: 'à', ccedil: 'ç', ntilde: 'ñ', lbrace: '{', rbrace: '}', lbrack: '[',
  rbrack: ']', vert: '|', num: '#', ast: '*', lowbar: '_', grave: '`', bsol: '\\', colon: ':', sol: '/',
};

/** Replaces character references by what they stand for. */
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#[xX]([0-9a-fA-F]{1,6})|#(\d{1,7})|([A-Za-z][A-Za-z0-9]{1,31}));/g, (whole, hex, decimal, name) => {
    if (name !== undefined) return Object.hasOwn(NAMED, name) ? NAMED[name]! : whole;
    const code = hex !== undefined ? Number.parseInt(hex, 16) : Number.parseInt(decimal, 10);
    const surrogate = code >= 0xd800 && code <= 0xdfff;
    return code === 0 || code > 0x10ffff || surrogate ? '\ufffd' : String.fromCodePoint(code);
  });
}
