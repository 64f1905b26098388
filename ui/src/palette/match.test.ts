import { expect, test } from 'vitest';
import { best, score } from './match';

const names = ['Settings', 'Split the pane to the right', 'Error response review', 'Order validation'];

test('characters in order, and beginnings of words first', () => {
  expect(best('sp', names, (n) => n, 10)[0]).toBe('Split the pane to the right');
  expect(best('ov', names, (n) => n, 10)).toEqual(['Order validation', 'Error response review']);
  expect(best('err rev', names, (n) => n, 10)).toEqual(['Error response review']);
  expect(best('xyz', names, (n) => n, 10)).toEqual([]);
  expect(score('', 'x')).toBe(0);
});

test('of equal ones the order stays, and no more than asked for come', () => {
  expect(best('', names, (n) => n, 2)).toEqual(names.slice(0, 2));
});
