import type { Token, Tokens } from 'marked';
import { describe, expect, it } from 'vitest';
import { decodeEntities } from './entities';
import { lex, MarkdownDocument, MAX_INLINE, MAX_MARKDOWN } from './lex';
import { imageSource, safeLink } from './url';

const SAMPLE = `# Title

A paragraph with **strong** and a [reference][r].

* one
* two
  * nested

\`\`\`go
func main() {}

// after an empty line
\`\`\`

| a | b |
| - | - |
| 1 | 2 |

> quoted
> text

setext
------

[r]: https://example.com/ "T"

- loose

- list

last words
`;

function types(tokens: readonly Token[]): string[] {
  return tokens.map((t) => t.type).filter((t) => t !== 'space');
}

/** The tokens of a document without keys. */
function shape(text: string): unknown {
  return JSON.parse(JSON.stringify(lex(text).tokens));
}

describe('a document that streams', () => {
  it.each([1, 3, 7, 50])('is the same as the whole when it is final, in steps of %i', (step) => {
    const doc = new MarkdownDocument();
    for (let n = step; n < SAMPLE.length; n += step) doc.update(SAMPLE.slice(0, n), false);
    const blocks = doc.update(SAMPLE, true);
    expect(JSON.parse(JSON.stringify(blocks.map((b) => b.token)))).toEqual(shape(SAMPLE));
  });

  it('shows the right kinds of blocks at every step', () => {
    const doc = new MarkdownDocument();
    for (let n = 1; n <= SAMPLE.length; n++) {
      const text = SAMPLE.slice(0, n);
      expect(types(doc.update(text, false).map((b) => b.token)), JSON.stringify(text)).toEqual(types(lex(text).tokens));
    }
  });

  it('keeps closed blocks as the same objects', () => {
    const doc = new MarkdownDocument();
    const text = 'one\n\ntwo\n\nthree\n\nfour';
    const before = doc.update(text, false);
    const after = doc.update(text + ' more', false);
    expect(after.slice(0, -1)).toEqual(before.slice(0, -1));
    for (let i = 0; i < before.length - 1; i++) expect(after[i]).toBe(before[i]);
    expect(after.at(-1)).not.toBe(before.at(-1));
    expect(after.at(-1)!.key).toBe(before.at(-1)!.key);
  });

  it('keeps the same blocks when the last text is final', () => {
    const doc = new MarkdownDocument();
    const before = doc.update(SAMPLE, true);
    expect(doc.update(SAMPLE, true).every((b, i) => b === before[i])).toBe(true);
  });

  it('reads a text that was replaced', () => {
    const doc = new MarkdownDocument();
    doc.update('a\n\nb\n\nc\n\nd', false);
    expect(doc.update('# other', false).map((b) => b.token.type)).toEqual(['heading']);
  });

  it('has unique keys', () => {
    const doc = new MarkdownDocument();
    for (let n = 1; n <= SAMPLE.length; n++) {
      const keys = doc.update(SAMPLE.slice(0, n), false).map((b) => b.key);
      expect(new Set(keys).size).toBe(keys.length);
    }
  });

  it('streams 200 KiB without reading all of it each time', () => {
    const paragraph = 'Some **words** in a paragraph with `code` and a [link](https://example.com).\n\n';
    const text = paragraph.repeat((200 << 10) / paragraph.length);
    const doc = new MarkdownDocument();
    const begun = performance.now();
    for (let n = 256; n < text.length; n += 256) doc.update(text.slice(0, n), false);
    // Reading all of it each time takes 800 × 20 ms.
    expect(performance.now() - begun).toBeLessThan(4000);
  });
});

describe('hostile Markdown', () => {
  it('keeps markup as text', () => {
    const [block] = lex('<script>alert(1)</script>').tokens as Tokens.HTML[];
    expect([block!.type, block!.text]).toEqual(['html', '<script>alert(1)</script>']);
  });

  it.each([
    ['quotes', '>'.repeat(20_000) + ' x'],
    ['quotes with spaces', '> '.repeat(20_000) + 'x'],
    ['lists on a line', '- '.repeat(20_000) + 'x'],
    ['lists by indentation', Array.from({ length: 400 }, (_, i) => ' '.repeat(i * 2) + '- x').join('\n')],
    ['brackets', '['.repeat(60_000)],
    ['links', '[a]('.repeat(20_000)],
    ['emphasis', '*a _b '.repeat(20_000)],
    ['stars', '*'.repeat(60_000)],
    ['backticks', '`a``b'.repeat(15_000)],
    ['markup', '<a '.repeat(20_000)],
    ['comments', '<!-- '.repeat(15_000)],
    ['tables', '|'.repeat(30_000) + '\n' + '|-'.repeat(15_000) + '|\n'],
    ['addresses', 'http://a'.repeat(8_000)],
    ['mail', 'a@'.repeat(30_000)],
    ['escapes', '\\*'.repeat(30_000)],
    ['spaces', 'a' + ' '.repeat(60_000) + 'b'],
    ['definitions', '[a]: '.repeat(15_000)],
  ])('does not hang on %s', (_name, text) => {
    const begun = performance.now();
    const { tokens } = lex(text);
    expect(performance.now() - begun).toBeLessThan(2000);
    expect(tokens.map((t) => t.raw).join('').length).toBeGreaterThan(0);
  });

  it('shows what is too long or too deep as it is', () => {
    const long = 'x '.repeat(MAX_MARKDOWN / 2 + 1);
    expect(lex(long).tokens).toEqual([{ type: 'plain', raw: long, text: long }]);
    expect(lex('>'.repeat(100) + 'x').tokens[0]!.type).toBe('plain');
    const paragraph = '**b** '.repeat(MAX_INLINE / 6 + 1);
    expect((lex(paragraph).tokens[0] as Tokens.Paragraph).tokens.map((t) => t.type)).toEqual(['text']);
  });
});

describe('addresses', () => {
  it.each([
    ['https://example.com/a?b=c&amp;d=e', 'https://example.com/a?b=c&d=e'],
    ['http://example.com', 'http://example.com/'],
    ['mailto:a@example.com', 'mailto:a@example.com'],
    ['HTTPS://EXAMPLE.COM', 'https://example.com/'],
    ['javascript:alert(1)', undefined],
    ['JaVaScRiPt:alert(1)', undefined],
    ['java\nscript:alert(1)', undefined],
    ['java&#10;script:alert(1)', undefined],
    ['&#106;avascript:alert(1)', undefined],
    ['\x01javascript:alert(1)', undefined],
    [' https://example.com', undefined],
    ['vbscript:x', undefined],
    ['data:text/html,<script>alert(1)</script>', undefined],
    ['file:///etc/passwd', undefined],
    ['blob:https://example.com/x', undefined],
    ['//example.com/x', undefined],
    ['/api/v1/logout', undefined],
    ['#login=x', undefined],
    ['https://bank.example@evil.example/', undefined],
    ['https://', undefined],
    ['', undefined],
  ])('%j', (href, want) => {
    expect(safeLink(href)).toBe(want);
  });

  it.each([
    ['https://example.com/p.png', { kind: 'remote', href: 'https://example.com/p.png', host: 'example.com' }],
    ['data:image/png;base64,AAAA', { kind: 'inline', src: 'data:image/png;base64,AAAA' }],
    ['data:image/svg+xml;base64,AAAA', undefined],
    ['data:image/png,<svg>', undefined],
    ['mailto:a@example.com', undefined],
    ['javascript:alert(1)', undefined],
    ['p.png', undefined],
  ])('picture %j', (href, want) => {
    expect(imageSource(href)).toEqual(want);
  });
});

describe('character references', () => {
  it.each([
    ['a &amp; b &lt;c&gt;', 'a & b <c>'],
    ['&copy; &#169; &#xA9;', '© © ©'],
    ['&amp;lt;', '&lt;'],
    ['&unknown; &constructor; & &;', '&unknown; &constructor; & &;'],
    ['&#0; &#xD800; &#x110000;', '� � �'],
  ])('%j', (text, want) => {
    expect(decodeEntities(text)).toBe(want);
  });
});
