// Recomputes the contrast of every pair of colours that text or controls use.

import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

const css = readFileSync(new URL('../src/style/tokens.css', import.meta.url), 'utf8');
const tokens = new Map([...css.matchAll(/--([a-z-]+):\s*light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)/g)].map((m) => [m[1]!, { light: m[2]!, dark: m[3]! }]));

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const c = parseInt(hex.slice(i, i + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function ratio(a: string, b: string): number {
  const [hi, lo] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (hi + 0.05) / (lo + 0.05);
}

const AA = 4.5;
/** For what is no text: borders of controls, marks (WCAG 1.4.11). */
const PARTS = 3;

const text = ['text', 'muted', 'faint', 'accent', 'running', 'waiting', 'ok', 'error'];
const pairs: [string, string, number][] = [
  ...text.flatMap((t): [string, string, number][] => [[t, 'bg', AA], [t, 'panel', AA]]),
  ...['text', 'muted', 'accent', 'ok', 'error', 'waiting'].map((t): [string, string, number] => [t, 'sunken', AA]),
  ['control', 'bg', PARTS], ['control', 'panel', PARTS],
  ['on-accent', 'accent', AA], ['on-error', 'error', AA],
  ['text', 'selected', AA], ['muted', 'selected', AA], ['accent', 'selected', AA], ['waiting', 'selected', AA], ['ok', 'selected', AA], ['error', 'selected', AA],
  ['text', 'mine', AA], ['muted', 'mine', AA], ['accent', 'mine', AA],
  ['waiting', 'waiting-fill', AA], ['text', 'waiting-fill', AA], ['muted', 'waiting-fill', AA],
  ['ok', 'ok-fill', AA], ['text', 'ok-fill', AA], ['error', 'error-fill', AA], ['text', 'error-fill', AA], ['muted', 'error-fill', AA],
  ...[...tokens.keys()].filter((n) => n.startsWith('code-')).flatMap((n): [string, string, number][] => [[n, 'sunken', AA], [n, 'bg', AA]]),
  // A terminal's black is for backgrounds; as text it is only told apart.
  ...[...tokens.keys()].filter((n) => n.startsWith('ansi-')).map((n): [string, string, number] => [n, 'bg', n === 'ansi-black' ? PARTS : AA]),
];

describe.each(['light', 'dark'] as const)('%s', (theme) => {
  test.each(pairs)('%s on %s', (a, b, least) => {
    const [x, y] = [tokens.get(a), tokens.get(b)];
    expect(x, a).toBeDefined();
    expect(y, b).toBeDefined();
    expect(ratio(x![theme], y![theme])).toBeGreaterThanOrEqual(least);
  });
});

test('the formula is that of WCAG', () => {
  expect(ratio('#000000', '#ffffff')).toBeCloseTo(21, 5);
  expect(ratio('#777777', '#ffffff')).toBeCloseTo(4.48, 2);
});
