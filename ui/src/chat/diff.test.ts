import { describe, expect, it } from 'vitest';
import { compare, parseDiff, stat, type FileDiff } from './diff';

/** The lines of a diff as text. */
function show(file: FileDiff): string[] {
  const sign = { same: ' ', add: '+', remove: '-' };
  return file.hunks.flatMap((h) => h.lines.map((l) => sign[l.kind] + l.text));
}

describe('reading', () => {
  it('a unified diff of git', () => {
    const files = parseDiff(
      'diff --git a/x.go b/x.go\nindex 1..2 100644\n--- a/x.go\n+++ b/x.go\n@@ -10,3 +10,3 @@ func main() {\n a\n--- not a header\n+b\n c\n\\ No newline at end of file\n',
    );
    expect(files.map((f) => [f.path, f.note])).toEqual([['x.go', undefined]]);
    expect(show(files[0]!)).toEqual([' a', '--- not a header', '+b', ' c']);
    expect(files[0]!.hunks[0]!.section).toBe('func main() {');
    expect(files[0]!.hunks[0]!.lines.map((l) => [l.old, l.new])).toEqual([[10, 10], [11, undefined], [undefined, 11], [12, 12]]);
    expect(stat(files)).toEqual({ added: 1, removed: 1 });
  });
  it('several files, new, deleted and renamed', () => {
    const files = parseDiff('--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- a/p\n+++ b/q\n@@ -1 +1 @@\n-1\n+2\nBinary files a/i.png and b/i.png differ\n');
    expect(files.map((f) => [f.path, f.note])).toEqual([['new', 'new file'], ['old', 'deleted'], ['q', 'was p'], ['i.png', 'binary']]);
  });
  it('a patch', () => {
    const files = parseDiff('*** Begin Patch\n*** Update File: a\n@@ func x\n-x\n+y\n z\n*** Add File: b\n+1\n*** Delete File: c\n*** End Patch\n');
    expect(files.map((f) => [f.path, f.note, show(f).join()])).toEqual([['a', undefined, '-x,+y, z'], ['b', 'new file', '+1'], ['c', 'deleted', '']]);
  });
  it.each(['', 'no diff at all', '@@ -x +y @@\n+a'])('nothing from %j', (text) => {
    expect(stat(parseDiff(text))).toEqual({ added: 0, removed: 0 });
  });
});

describe('comparing', () => {
  it.each([
    ['a\nb\nc\n', 'a\nB\nc\n', [' a', '-b', '+B', ' c']],
    ['', 'a\nb\n', ['+a', '+b']],
    ['a\n', '', ['-a']],
    ['a\n', 'a\n', []],
    ['a\nb\nc\nd', 'b\nc\nd\ne', ['-a', ' b', ' c', ' d', '+e']],
    ['x\na\nb', 'a\nb\nx', ['-x', ' a', ' b', '+x']],
  ])('%j with %j', (a, b, want) => {
    expect(show(compare('f', a, b))).toEqual(want);
  });

  it('rebuilds both texts from the result, whatever they are', () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
    for (let round = 0; round < 500; round++) {
      const text = () => Array.from({ length: random(12) }, () => 'abc'[random(3)] + '\n').join('');
      const [a, b] = [text(), text()];
      const lines = compare('f', a, b, 1000).hunks.flatMap((h) => h.lines);
      if (a === b) continue;
      const side = (not: string) => lines.filter((l) => l.kind !== not).map((l) => l.text + '\n').join('');
      expect([side('add'), side('remove')], JSON.stringify([a, b])).toEqual([a, b]);
    }
  });

  it('keeps three lines around a change', () => {
    const a = Array.from({ length: 40 }, (_, i) => `${i}`);
    const b = a.with(5, 'x').with(30, 'y');
    const file = compare('f', a.join('\n'), b.join('\n'));
    expect(file.hunks.map((h) => [h.lines[0]!.old, h.lines.at(-1)!.old])).toEqual([[3, 9], [28, 34]]);
  });

  it('gives up on texts that have nothing in common', () => {
    const text = (p: string) => Array.from({ length: 20_000 }, (_, i) => p + i).join('\n');
    const begun = performance.now();
    expect(stat([compare('f', text('a'), text('b'))])).toEqual({ added: 20_000, removed: 20_000 });
    expect(performance.now() - begun).toBeLessThan(2000);
  });
});

describe('words', () => {
  const marks = (a: string, b: string) =>
    compare('f', a, b).hunks.flatMap((h) => h.lines).filter((l) => l.marks).map((l) => l.marks!.map(([from, to]) => l.text.slice(from, to)));
  it('that changed are marked', () => {
    expect(marks('func main() {}', 'func main() { run() }')).toEqual([[], [' run() ']]);
    expect(marks('let total = 1;', 'let total = 2;')).toEqual([['1'], ['2']]);
  });
  it('are not marked in lines that have little in common', () => {
    expect(marks('alpha beta gamma', 'something else entirely here')).toEqual([]);
    expect(marks('a1\nb1', 'c1')).toEqual([]);
  });
});
