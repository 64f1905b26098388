import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { LocalCode } from '../wire/errors';
import { ago, codes, count, duration, explain } from './words';

/** The codes that a Go file defines. */
function goCodes(file: string): string[] {
  const source = readFileSync(new URL(`../../../proto/${file}`, import.meta.url), 'utf8');
  return [...source.matchAll(/^\s*Code\w+\s+Code\s*=\s*"([A-Z_]+)"/gm)].map((m) => m[1]!);
}

describe('sentences', () => {
  const local: Record<LocalCode, true> = { CONNECTION_LOST: true, OFFLINE: true, NOT_CONNECTED: true, PROTOCOL: true, TIMEOUT: true, ABORTED: true };
  const all = [...new Set([...goCodes('api/errors.go'), ...goCodes('exec/errors.go'), ...Object.keys(local)])];

  test('the codes are found in the sources', () => {
    expect(goCodes('api/errors.go').length).toBeGreaterThan(20);
    expect(goCodes('exec/errors.go').length).toBeGreaterThan(25);
  });

  test.each(all)('%s has one', (code) => {
    expect(codes).toContain(code);
    const { text } = explain({ code, message: 'the detail' }, { executor: 'gpu-1', agent: 'claude', since: '13:40' });
    expect(text).toMatch(/^[A-Za-z].*[.?`]$/s);
    expect(text).not.toMatch(/oops|something went wrong|!|undefined|sorry|please/i);
    expect(text).not.toMatch(/\.\./);
  });

  test('none is for a code that nobody sends', () => {
    expect(codes.filter((c) => !all.includes(c))).toEqual([]);
  });

  test('name the machine, the agent and the time', () => {
    expect(explain({ code: 'EXECUTOR_UNAVAILABLE', message: '' }, { executor: 'gpu-1', since: '13:40' }).text).toContain('gpu-1 is away since 13:40');
    expect(explain({ code: 'AGENT_NOT_SIGNED_IN', message: '' }, { executor: 'build-box', agent: 'claude' }).text).toContain('claude is not signed in on build-box');
  });

  test('an unknown code says what the server said, as a sentence', () => {
    expect(explain({ code: 'NEW_CODE', message: 'the moon is full' })).toEqual({ text: 'the moon is full.', code: 'NEW_CODE' });
  });

  test('say whether a lost request may have had an effect', () => {
    expect(explain({ code: 'CONNECTION_LOST', message: '', details: { dispatched: 'no' } }).text).toContain('Nothing was sent');
    expect(explain({ code: 'CONNECTION_LOST', message: '', details: { dispatched: 'unknown' } }).text).toContain('may have been done');
  });

  test('say when to try again', () => {
    expect(explain({ code: 'RATE_LIMITED', message: '', details: { retryAfterMs: 90_000 } }).text).toContain('in 2 min');
    expect(explain({ code: 'TOO_MANY_REQUESTS', message: '' }).text).toContain('in a while');
  });
});

test('durations, ages and counts', () => {
  expect([duration(400), duration(59_000), duration(61_000), duration(7_200_000)]).toEqual(['1 s', '59 s', '2 min', '2 h']);
  const now = 1e12;
  expect([0, 60e3, 59 * 60e3, 3600e3, 26 * 3600e3, 90 * 86400e3].map((t) => ago(now - t, now))).toEqual(['now', '1m', '59m', '1h', '1d', '3mo']);
  expect([count(1, 'chat'), count(2, 'chat'), count(0, 'reply', 'replies')]).toEqual(['1 chat', '2 chats', '0 replies']);
});
