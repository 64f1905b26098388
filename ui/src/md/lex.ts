// Markdown as tokens. marked is used as a lexer only: what a message says is
// drawn by components, so that text can never become markup.

import { Lexer, type Links, type Token } from 'marked';

/** A top-level block. Blocks of equal source are the same object from one update to the next. */
export interface Block {
  /** Unique within the document and stable while the block keeps its place. */
  readonly key: number;
  readonly token: Token;
}

/** Text longer than this is not read as Markdown: 1 MiB takes about 100 ms on a small machine. */
export const MAX_MARKDOWN = 1 << 20;
/** A paragraph longer than this is plain text: the rules of emphasis and links take quadratic time. */
export const MAX_INLINE = 16 << 10;
/** Quotes and lists nested deeper than this are plain text: each level reads its content again. */
const MAX_NESTING = 24;
/** How many blocks at the end may still change when text is added: a list and the paragraph that may join it. */
const OPEN_BLOCKS = 2;

const OPTIONS = { gfm: true, breaks: false } as const;

/**
 * A document that grows. While text is only added, all but the last blocks are
 * kept without being read again.
 */
export class MarkdownDocument {
  private source = '';
  private blocks: readonly Block[] = [];
  private links: Links = {};
  private nextKey = 0;
  /** Whether the sources of the blocks add up to the source, so that they can be found in it. */
  private exact = true;
  /** Whether blocks were kept that were read before a link definition they may name. */
  private stale = false;

  /** Reads the text; final says that nothing will be added, and has all of it read once more. */
  update(text: string, final: boolean): readonly Block[] {
    const source = normalise(text);
    if (source === this.source && !final) return this.blocks;
    const appended = !final && this.exact && this.source !== '' && source.startsWith(this.source);
    const kept = appended ? this.closed() : 0;
    let offset = 0;
    for (let i = 0; i < kept; i++) offset += this.blocks[i]!.token.raw.length;
    const tail = source.slice(offset);
    const { tokens, links } = lex(tail, appended ? this.links : {});
    const sameLinks = !this.stale && equalLinks(links, this.links);
    const next: Block[] = this.blocks.slice(0, kept);
    for (const token of tokens) {
      const before = this.blocks[next.length];
      const same = before !== undefined && before.token.type === token.type;
      if (same && sameLinks && before.token.raw === token.raw) next.push(before);
      // A block that grew keeps its key, so that its element stays.
      else next.push({ key: same ? before.key : this.nextKey++, token });
    }
    this.stale = kept > 0 && !sameLinks;
    this.exact = tokens.reduce((n, t) => n + t.raw.length, 0) === tail.length;
    this.source = source;
    this.links = links;
    this.blocks = next;
    return next;
  }

  /** How many blocks no added text can change. */
  private closed(): number {
    let open = 0;
    let i = this.blocks.length;
    while (i > 0 && open < OPEN_BLOCKS) {
      i--;
      if (this.blocks[i]!.token.type !== 'space') open++;
    }
    return i;
  }
}

/** Reads the whole text once. */
export function lex(source: string, links: Links = {}): { tokens: Token[]; links: Links } {
  if (source.length > MAX_MARKDOWN || tooDeep(source)) return { tokens: [plain(source)], links };
  try {
    const lexer = new Lexer(OPTIONS);
    Object.assign(lexer.tokens.links, links);
    lexer.blockTokens(source, lexer.tokens);
    for (const { src, tokens } of lexer.inlineQueue) {
      if (src.length > MAX_INLINE) tokens.push({ type: 'text', raw: src, text: src, escaped: true });
      else lexer.inlineTokens(src, tokens);
    }
    lexer.inlineQueue = [];
    return { tokens: [...lexer.tokens], links: lexer.tokens.links };
  } catch {
    // The lexer recurses; what is nested too deeply even so is shown as it is.
    return { tokens: [plain(source)], links };
  }
}

function plain(text: string): Token {
  return { type: 'plain', raw: text, text };
}

function normalise(text: string): string {
  return text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text;
}

/** Reports whether a line opens more quotes and lists than are drawn. */
function tooDeep(source: string): boolean {
  const marker = /^(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])))+/gm;
  for (let m = marker.exec(source); m; m = marker.exec(source)) {
    if (m[0].length > MAX_NESTING && (m[0].match(/>|[-*+]|[.)]/g)?.length ?? 0) > MAX_NESTING) return true;
    if (m[0] === '') marker.lastIndex++;
  }
  // Lists also nest by indentation alone.
  return new RegExp(`^[ \\t]{${MAX_NESTING * 4},}(?:[-*+]|\\d{1,9}[.)])[ \\t]`, 'm').test(source);
}

function equalLinks(a: Links, b: Links): boolean {
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((k) => b[k] !== undefined && a[k]!.href === b[k]!.href && a[k]!.title === b[k]!.title)
  );
}
