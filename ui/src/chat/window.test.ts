import { describe, expect, it } from 'vitest';
import type { FollowSnapshot, Page, Row } from '../wire/types';
import { append, beginning, extend, forward, FORWARD_STEP, MAX_ROWS, open, prepend, rejoin, replace, type Window } from './window';

function rows(from: number, to: number): Row[] {
  return Array.from({ length: to - from }, (_, i) => ({ kind: 'user', ordinal: from + i, time: 0, text: '' }));
}

function snapshot(from: number, to: number, view = 'v'): FollowSnapshot {
  return { type: 'snapshot', view, cursor: to - 1, rows: rows(from, to), hasMore: from > 0, live: [] };
}

function page(from: number, to: number, through: number, view = 'v'): Page {
  return { chatId: 'c', view, through, rows: rows(from, to), hasMore: from > 0 };
}

function range(w: Window): [number, number] {
  return [w.rows[0]!.ordinal, w.rows.at(-1)!.ordinal];
}

describe('appending', () => {
  it('adds what is new and nothing twice', () => {
    const w = open(snapshot(0, 10));
    const { window, shift } = append(w, rows(8, 12), 11, true);
    expect([range(window), window.cursor, shift]).toEqual([[0, 11], 11, false]);
  });
  it('drops the start while following', () => {
    const w = open(snapshot(0, MAX_ROWS));
    const { window, shift } = append(w, rows(MAX_ROWS, MAX_ROWS + 1), MAX_ROWS, true);
    expect([range(window)[1], window.older, window.end, shift]).toEqual([MAX_ROWS, true, true, true]);
    expect(window.rows.length).toBeLessThan(MAX_ROWS);
  });
  it('keeps what a reader sees and lets the end go', () => {
    const w = open(snapshot(0, MAX_ROWS));
    const { window, shift } = append(w, rows(MAX_ROWS, MAX_ROWS + 1), MAX_ROWS, false);
    expect([range(window), window.end, window.cursor, shift]).toEqual([[0, MAX_ROWS - 1], false, MAX_ROWS, false]);
    expect(append(window, rows(MAX_ROWS + 1, MAX_ROWS + 2), MAX_ROWS + 1, false).window.rows).toBe(window.rows);
  });
});

describe('paging', () => {
  it('prepends what is older, keeping the distance from the end', () => {
    const { window, shift } = prepend(open(snapshot(50, 60)), page(20, 55, 59));
    expect([range(window), window.older, shift]).toEqual([[20, 59], true, true]);
    expect(prepend(window, page(0, 20, 59)).window.older).toBe(false);
  });
  it('drops the far end of a long window', () => {
    const { window } = prepend(open(snapshot(500, 500 + MAX_ROWS)), page(0, 500, 499 + MAX_ROWS));
    expect([range(window)[0], window.end]).toEqual([0, false]);
    expect(window.rows.length).toBeLessThanOrEqual(MAX_ROWS);
  });
  it('ignores a page of another view', () => {
    const w = open(snapshot(50, 60));
    expect(prepend(w, page(0, 50, 59, 'other')).window).toBe(w);
    expect(extend(w, page(0, 50, 59, 'other'), { through: 59 }).window).toBe(w);
  });
  it('goes forward to the end without a hole', () => {
    const total = 3 * FORWARD_STEP + 7;
    let w: Window = { ...open(snapshot(0, 10)), end: false, cursor: total - 1 };
    for (let n = 0; !w.end; n++) {
      expect(n).toBeLessThan(10);
      const asked = forward(w);
      const to = asked.before ?? total;
      w = extend(w, page(Math.max(0, to - 500), to, asked.through), asked).window;
    }
    expect(w.rows.map((r) => r.ordinal)).toEqual(rows(0, total).map((r) => r.ordinal));
  });
  it('is not at the end when rows came while the page was on its way', () => {
    let w: Window = { ...open(snapshot(0, 10)), end: false, cursor: 19 };
    const asked = forward(w);
    w = append(w, rows(20, 21), 20, false).window;
    w = extend(w, page(0, 20, 19), asked).window;
    expect([w.end, range(w)]).toEqual([false, [0, 19]]);
    expect(extend(w, page(0, 21, 20), forward(w)).window.end).toBe(true);
  });
  it('jumps', () => {
    const w = open(snapshot(900, 1000));
    expect(replace(w, page(900, 1000, 999), { through: 999 }).window.end).toBe(true);
    const asked = beginning(w);
    expect(replace(w, page(0, asked.before!, 999), asked).window).toMatchObject({ end: false, older: false, cursor: 999 });
    const short = open(snapshot(0, 10));
    expect(replace(short, page(0, 10, 9), beginning(short)).window.end).toBe(true);
  });
});

describe('a new generation', () => {
  const w = open(snapshot(0, 10));
  it('goes on when its rows join', () => {
    expect(range(rejoin(w, snapshot(5, 15), true, true).window)).toEqual([0, 14]);
    expect(range(rejoin(w, snapshot(10, 15), true, true).window)).toEqual([0, 14]);
  });
  it('replaces when rows between may be missing', () => {
    expect(range(rejoin(w, snapshot(11, 15), false, true).window)).toEqual([11, 14]);
  });
  it('takes another view, or an older cursor, whole', () => {
    expect(rejoin(w, snapshot(0, 10, 'other'), false, true).window.view).toBe('other');
    expect(range(rejoin(w, snapshot(0, 5), false, true).window)).toEqual([0, 4]);
  });
  it('leaves a reader in the middle alone', () => {
    const middle = { ...w, end: false, cursor: 100 };
    const { window } = rejoin(middle, snapshot(150, 200), false, false);
    expect([window.rows, window.cursor, window.end]).toEqual([middle.rows, 199, false]);
  });
});
