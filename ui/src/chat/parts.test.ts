import { describe, expect, it } from 'vitest';
import type { Live, Row } from '../wire/types';
import { applyLive, endParts, partKey, type Parts } from './parts';

const NONE: Parts = new Map();

function live(offset: number, text: string, partId = 'p'): Live {
  return { runId: 'r', partId, kind: 'assistant', offset, text };
}

function text(parts: Parts, partId = 'p'): string | undefined {
  return parts.get(partKey('r', partId))?.text;
}

describe('updates', () => {
  it('append by bytes, not characters', () => {
    const parts = applyLive(NONE, [live(0, 'é😀'), live(6, ' next')]);
    expect(text(parts)).toBe('é😀 next');
  });
  it('replace from an offset', () => {
    expect(text(applyLive(NONE, [live(0, 'é😀x'), live(2, 'y')]))).toBe('éy');
    expect(text(applyLive(NONE, [live(0, 'abc'), live(0, 'd')]))).toBe('d');
  });
  it('that leave a hole, or cut a character, change nothing', () => {
    expect(text(applyLive(NONE, [live(0, 'ab'), live(5, 'x')]))).toBe('ab');
    expect(text(applyLive(NONE, [live(0, 'é'), live(1, 'x')]))).toBe('é');
    expect(applyLive(NONE, [live(3, 'x')]).size).toBe(0);
  });
  it('keep the title and the order of appearance', () => {
    const parts = applyLive(NONE, [{ ...live(0, 'a'), title: 'T' }, live(0, 'b', 'q'), live(1, 'c')]);
    expect([...parts.keys()]).toEqual([partKey('r', 'p'), partKey('r', 'q')]);
    expect(parts.get(partKey('r', 'p'))!.title).toBe('T');
  });
});

describe('ends', () => {
  const parts = applyLive(NONE, [live(0, 'a'), live(0, 'b', 'q')]);
  const head = { ordinal: 1, time: 0 };
  it('with the row that names the part', () => {
    const row: Row = { ...head, kind: 'assistant', text: 'a', runId: 'r', partId: 'p' };
    expect([...endParts(parts, [row], []).keys()]).toEqual([partKey('r', 'q')]);
    expect(endParts(parts, [{ ...row, runId: 'other' }], [])).toBe(parts);
  });
  it('without a row', () => {
    expect([...endParts(parts, [], ['q']).keys()]).toEqual([partKey('r', 'p')]);
  });
  it('with the run', () => {
    expect(endParts(parts, [{ ...head, kind: 'run', phase: 'interrupted', runId: 'r' }], []).size).toBe(0);
    expect(endParts(parts, [{ ...head, kind: 'run', phase: 'started', runId: 'r' }], [])).toBe(parts);
  });
});
