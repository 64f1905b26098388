// Colours of code, drawn as plain elements from the highlighter's own tree: a
// component for each token takes seconds, and markup as text is not allowed.

import type { HLJSApi, LanguageFn } from 'highlight.js';

/** Longer code stays plain: 24 KiB take about 60 ms on a small machine, which is what one pause may cost. */
export const MAX_HIGHLIGHT = 24 << 10;

interface Node {
  scope?: string;
  children: (Node | string)[];
}

let loading: Promise<HLJSApi> | undefined;

/** Loads the highlighter with its grammars, once. */
function load(): Promise<HLJSApi> {
  loading ??= import('./grammars').then(({ core, grammars }) => {
    for (const [name, grammar] of Object.entries<LanguageFn>(grammars)) core.registerLanguage(name, grammar);
    return core;
  });
  return loading;
}

/** Colours code, when the language is known. It resolves to undefined when the code stays plain. */
export async function highlight(code: string, language: string): Promise<DocumentFragment | undefined> {
  if (code.length > MAX_HIGHLIGHT || language === '') return undefined;
  const core = await load();
  if (!core.getLanguage(language)) return undefined;
  const result = core.highlight(code, { language, ignoreIllegals: true });
  const root = (result._emitter as unknown as { rootNode: Node }).rootNode;
  const fragment = document.createDocumentFragment();
  build(fragment, root);
  return fragment;
}

function build(parent: globalThis.Node, node: Node): void {
  for (const child of node.children) {
    if (typeof child === 'string') {
      parent.appendChild(document.createTextNode(child));
      continue;
    }
    const span = document.createElement('span');
    const name = child.scope?.split('.')[0];
    if (name && !name.startsWith('language:')) span.className = `hl-${name}`;
    build(span, child);
    parent.appendChild(span);
  }
}
