// Rules of the sources that no type checker knows.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const src = fileURLToPath(new URL('../src', import.meta.url));
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((f) => /\.(svelte|ts|css)$/.test(f) && !f.endsWith('.test.ts'))
  .map((name) => ({ name: name.replaceAll('\\', '/'), text: readFileSync(join(src, name), 'utf8') }));

/** Directories whose files are screens, or the transcript. A screen never imports another. */
const screens = ['agents', 'chat', 'firstrun', 'login', 'newchat', 'palette', 'panes', 'settings', 'shell', 'sidebar'];
/** What may be imported from each layer. The root puts everything together. */
const layers: Record<string, string[]> = {
  wire: ['wire'],
  words: ['words', 'wire'],
  model: ['model', 'wire'],
  kit: ['kit', 'wire'],
  ansi: ['ansi', 'kit'],
  md: ['md', 'kit', 'ansi'],
  keyboard: ['keyboard', 'kit', 'model', 'wire', 'words'],
};
for (const screen of screens) layers[screen] = [screen, 'kit', 'md', 'ansi', 'model', 'wire', 'words', 'keyboard', 'env'];

/** The text without comments, so that a rule can be named in one. */
function code(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/<!--[\s\S]*?-->/g, '').replace(/(^|[^:])\/\/[^\n]*/g, '$1');
}

/** Finds lines that break a rule. */
function offences(pattern: RegExp, only: (name: string) => boolean = () => true): string[] {
  return files.filter((f) => only(f.name)).flatMap((f) => code(f.text).split('\n').flatMap((line) => (pattern.test(line) ? [`${f.name}: ${line.trim()}`] : [])));
}

describe('nothing becomes markup, and nothing breaks the policy of the page', () => {
  test('there are files', () => expect(files.length).toBeGreaterThan(60));
  test('no {@html', () => expect(offences(/\{@html/)).toEqual([]));
  test('no innerHTML and its kin', () => expect(offences(/\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|srcdoc|DOMParser)\b/)).toEqual([]));
  test('no static style attribute', () => expect(offences(/\sstyle="(?!\{)/)).toEqual([]));
  test('no inline handler, eval or address of a script in markup', () => expect(offences(/\son[a-z]+="[^{]|\beval\(|new Function\(|javascript:/)).toEqual([]));
  test('no store of credentials in the page', () => expect(offences(/document\.cookie|localStorage\.[sg]et.*(?:secret|token|password)/i)).toEqual([]));
});

describe('looks', () => {
  test('no colour outside tokens.css', () => {
    // Colours derived from a token, as in oklch(from var(…)), are not new ones.
    const colour = /#[0-9a-f]{3,8}\b(?![^<]*>)|\b(?:rgb|rgba|hsl|hsla|oklch|lab|color)\((?!from )|:\s*(?:white|black|red|green|blue|gr[ae]y|orange|yellow|transparent)\s*;/i;
    const css = files.flatMap((f) => {
      if (f.name === 'style/tokens.css') return [];
      const parts = f.name.endsWith('.css') ? [f.text] : f.name.endsWith('.svelte') ? [...f.text.matchAll(/<style>([\s\S]*?)<\/style>/g)].map((m) => m[1]!) : [];
      return parts.flatMap((p) => code(p).split('\n').filter((l) => colour.test(l)).map((l) => `${f.name}: ${l.trim()}`));
    });
    expect(css).toEqual([]);
  });

  test('every custom property that is used is defined', () => {
    const tokens = new Set([...files.find((f) => f.name === 'style/tokens.css')!.text.matchAll(/(--[a-z0-9-]+):/g)].map((m) => m[1]!));
    const missing = files.flatMap((f) => {
      const own = new Set([...f.text.matchAll(/(--[a-z0-9-]+)(?=[:=])/g)].map((m) => m[1]!));
      return [...f.text.matchAll(/var\((--[a-z0-9-]+)/g)].map((m) => m[1]!).filter((n) => !tokens.has(n) && !own.has(n)).map((n) => `${f.name}: ${n}`);
    });
    expect(missing).toEqual([]);
  });

  test('no emoji: some systems lack them', () => expect(offences(/\p{Extended_Pictographic}(?<![0-9#*©®™↔↕▶◀])/u)).toEqual([]));
});

describe('layers', () => {
  const imports = files.flatMap((f) => {
    const dir = f.name.includes('/') ? f.name.split('/')[0]! : '';
    return [...f.text.matchAll(/(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g)].map((m) => ({ f, dir, to: relative(src, resolve(src, dirname(f.name), m[1]!)).replaceAll('\\', '/').split('/')[0]! }));
  });

  test('imports are found', () => expect(imports.length).toBeGreaterThan(100));

  test('go down only, and no screen imports another', () => {
    const wrong = imports.filter(({ dir, to }) => dir !== '' && dir !== 'style' && !(layers[dir] ?? []).includes(to)).map(({ f, to }) => `${f.name} imports ${to}`);
    expect(wrong).toEqual([]);
  });

  test('wire and model know no components and wire knows no Svelte', () => {
    expect(offences(/from '[^']*\.svelte'/, (n) => n.startsWith('model/')).filter((l) => !/from '\.\/[a-z]+\.svelte'/.test(l))).toEqual([]);
    expect(offences(/from 'svelte|\$state|\$derived|\$effect/, (n) => n.startsWith('wire/'))).toEqual([]);
    expect(offences(/\bdocument\.|\bwindow\./, (n) => n.startsWith('model/') || n.startsWith('wire/'))).toEqual([]);
  });
});

test('the file of a component is not a book', () => {
  expect(files.filter((f) => f.text.split('\n').length > 700).map((f) => f.name)).toEqual([]);
});
