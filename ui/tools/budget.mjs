// Fails the build when a chunk is larger than its budget. Sizes are those of
// the files as they travel: gzip, level 9.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const dist = new URL('../dist/', import.meta.url).pathname;
const KiB = 1024;
/** What the first load should stay under, and what it must. */
const TARGET = 140 * KiB;
const LIMIT = 170 * KiB;
const CSS_LIMIT = 12 * KiB;
/** One screen, loaded when it is opened. */
const SCREEN_LIMIT = 20 * KiB;
/** Chunks that are large by nature; by the beginning of their names. */
const OWN = [
  ['highlight', 40 * KiB],
  ['grammars', 40 * KiB],
  ['chat', 60 * KiB],
];

const size = (name) => gzipSync(readFileSync(join(dist, name)), { level: 9 }).length;
const files = readdirSync(join(dist, 'assets')).map((name) => `assets/${name}`);
const html = readFileSync(join(dist, 'index.html'), 'utf8');
const named = [...html.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map((m) => m[1]);

// What the entry imports statically comes with it.
const first = new Set();
function add(name) {
  if (first.has(name)) return;
  first.add(name);
  if (!name.endsWith('.js')) return;
  const code = readFileSync(join(dist, name), 'utf8');
  for (const m of code.matchAll(/(?:^|[;}\s])(?:import|export)\s*(?:[^'"()]*?\bfrom\s*)?["']\.\/([^"']+\.js)["']/g)) add(`assets/${m[1]}`);
}
named.forEach(add);

let failed = false;
function report(label, bytes, limit, target = limit) {
  const mark = bytes > limit ? 'OVER' : bytes > target ? 'over target' : 'ok';
  if (bytes > limit) failed = true;
  console.log(`${label.padEnd(44)} ${(bytes / KiB).toFixed(1).padStart(7)} KiB of ${(limit / KiB).toFixed(0)}  ${mark}`);
}

const sum = (names) => names.reduce((n, name) => n + size(name), 0);
report('first load, JavaScript', sum([...first].filter((n) => n.endsWith('.js'))), LIMIT, TARGET);
report('first load, CSS', sum([...first].filter((n) => n.endsWith('.css'))), CSS_LIMIT);
for (const name of files.filter((n) => n.endsWith('.js') && !first.has(n)).sort()) {
  const base = name.slice('assets/'.length);
  report(name, size(name), OWN.find(([begin]) => base.startsWith(begin))?.[1] ?? SCREEN_LIMIT);
}
if (failed) {
  console.error('A budget is exceeded.');
  process.exit(1);
}
