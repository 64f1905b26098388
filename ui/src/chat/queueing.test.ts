import { expect, it } from 'vitest';
import { move } from './queueing';

it.each([
  ['a', 2, 'bca'],
  ['c', 0, 'cab'],
  ['b', 1, undefined],
  ['a', -1, undefined],
  ['a', 3, undefined],
  ['gone', 0, undefined],
])('moves %s to %i', (id, to, want) => {
  expect(move(['a', 'b', 'c'], id, to)?.join('')).toBe(want);
});
