import { expect, it } from 'vitest';
import { Follow, FOLLOW_SLACK } from './follow';

const at = (top: number, height = 1000, view = 200) => ({ top, height, view });

it('follows until the reader scrolls up', () => {
  const f = new Follow();
  f.scrolled(at(800), true);
  expect(f.following).toBe(true);
  f.scrolled(at(790), true);
  expect(f.following).toBe(false);
});

it('goes on within the slack, and only downwards', () => {
  const f = new Follow();
  f.scrolled(at(800), true);
  f.scrolled(at(500), true);
  f.scrolled(at(800 - FOLLOW_SLACK - 1), true);
  expect(f.following).toBe(false);
  f.scrolled(at(800 - FOLLOW_SLACK), true);
  expect(f.following).toBe(true);
  f.scrolled(at(800 - FOLLOW_SLACK - 2), true);
  expect(f.following).toBe(false);
});

it.each([
  ['the rows turned out to be smaller', at(700, 900)],
  ['the pane grew', at(700, 1000, 300)],
  ['new rows came below', at(800, 1400)],
])('keeps following when %s', (_name, m) => {
  const f = new Follow();
  f.scrolled(at(800), true);
  f.scrolled(m, true);
  expect(f.following).toBe(true);
});

it('is turned off by the wheel before anything moved, if there is something above', () => {
  const f = new Follow();
  f.upward(at(0, 100));
  expect(f.following).toBe(true);
  f.upward(at(800));
  expect(f.following).toBe(false);
  f.resume();
  expect(f.following).toBe(true);
});

it('keeps following whatever moves the list but the reader', () => {
  const f = new Follow();
  f.scrolled(at(800), false);
  f.scrolled(at(500, 1200), false);
  expect(f.following).toBe(true);
});

it('does not take a jump to the end of another list for scrolling up', () => {
  const f = new Follow();
  f.scrolled(at(90_000, 100_000), true);
  f.resume();
  f.scrolled(at(99_800, 100_000), true);
  f.resume();
  f.scrolled(at(3000, 100_000), true);
  expect(f.following).toBe(true);
});
