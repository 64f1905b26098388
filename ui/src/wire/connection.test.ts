import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Carrier } from './carrier';
import { Connection, DEAD_AFTER, FIRST_PAUSE, LAST_PAUSE, pauseAfter, PROBE_AFTER, READY_TIMEOUT, STABLE_AFTER, type ConnectionState } from './connection';
import { CarrierError } from './errors';
import { ScriptedCarrier, settle } from './testing/scripted';
import { CLOSE_SIGNED_OUT, type EventItem } from './types';

const HEARTBEAT = 2_000;
const ready = { type: 'ready', clientId: 'c', serverInstanceId: 's', host: { version: '1', workspace: '', heartbeatMs: HEARTBEAT } };

function setup() {
  const dials: { resolve(c: Carrier): void; reject(e: unknown): void; signal: AbortSignal }[] = [];
  const states: ConnectionState[] = [];
  const events: EventItem[] = [];
  const changes: (number | undefined)[] = [];
  const session = { signedIn: true as boolean | 'unreachable' };
  const connection = new Connection({
    dial: (signal) => new Promise((resolve, reject) => void dials.push({ resolve, reject, signal })),
    signedIn: () => (session.signedIn === 'unreachable' ? Promise.reject(new Error()) : Promise.resolve(session.signedIn)),
    onState: (s) => void states.push(s),
    onEvent: (e) => void events.push(e),
    random: () => 1,
  });
  connection.subscribe(() => void changes.push(connection.generation?.number));
  const open = async (): Promise<ScriptedCarrier> => {
    const c = new ScriptedCarrier();
    dials.at(-1)!.resolve(c);
    await settle();
    return c;
  };
  const connect = async (): Promise<ScriptedCarrier> => {
    const c = await open();
    c.item('$events', ready);
    return c;
  };
  const phase = (): string => connection.state.phase;
  return { connection, dials, states, events, changes, session, open, connect, phase };
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'] }));
afterEach(() => void vi.useRealTimers());

describe('generations', () => {
  test('only ready publishes connected, and $events is opened first', async () => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.open();
    expect(c.sent.map((f) => f.type === 'open' && f.name)).toEqual(['$events']);
    expect([t.phase(), t.connection.generation]).toEqual(['connecting', undefined]);
    c.item('$events', ready);
    expect([t.phase(), t.connection.generation?.clientId, t.changes]).toEqual(['connected', 'c', [1]]);
  });

  test('events are passed on after ready', async () => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.connect();
    c.item('$events', { type: 'emit', event: { kind: 'run-failed', chatId: 'x' } });
    expect(t.events).toMatchObject([{ type: 'emit', event: { chatId: 'x' } }]);
  });

  const withdrawals: [string, (c: ScriptedCarrier) => void][] = [
    ['an unexpected end', (c) => c.end('$events')],
    ['an error of $events', (c) => c.fail('$events', 'SHUTTING_DOWN')],
    ['a second ready', (c) => c.item('$events', ready)],
    ['an event that does not read', (c) => c.item('$events', { type: 'emit', event: {} })],
    ['a carrier failure', (c) => c.break()],
  ];
  test.each(withdrawals)('%s withdraws the generation and dials again', async (_, act) => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.connect();
    act(c);
    expect(t.connection.generation).toBeUndefined();
    expect(t.changes).toEqual([1, undefined]);
    await vi.advanceTimersByTimeAsync(LAST_PAUSE);
    expect(t.dials).toHaveLength(2);
    await t.connect();
    expect(t.connection.generation?.number).toBe(2);
  });

  test.each([['another first item', { type: 'emit', event: { kind: 'asked', chatId: 'x' } }], ['a malformed first item', { type: 'ready', clientId: '' }], ['a ready with a member too many', { ...ready, more: 1 }]])('%s withdraws it', async (_, item) => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.open();
    c.item('$events', item);
    expect(t.phase()).not.toBe('connected');
    expect(c.closedWith).toBeDefined();
  });

  test('no ready within ten seconds withdraws it', async () => {
    const t = setup();
    t.connection.connectNow();
    await t.open();
    await vi.advanceTimersByTimeAsync(READY_TIMEOUT - 1);
    expect(t.phase()).toBe('connecting');
    await vi.advanceTimersByTimeAsync(1);
    expect(t.phase()).toBe('waiting');
  });

  test('a late close of an old carrier does not touch the new generation', async () => {
    const t = setup();
    t.connection.connectNow();
    const old = await t.connect();
    const listeners: ((e: CarrierError) => void)[] = [];
    old.onClose((e) => void listeners.push(() => e));
    t.connection.renew('test');
    await vi.advanceTimersByTimeAsync(LAST_PAUSE);
    await t.connect();
    old.broken(new CarrierError('late', 1006));
    old.item('$events', ready);
    expect([t.phase(), t.connection.generation?.number]).toEqual(['connected', 2]);
  });

  test('a dial that was given up closes the carrier it gets late', async () => {
    const t = setup();
    t.connection.connectNow();
    const [first] = t.dials as [(typeof t.dials)[number]];
    t.connection.connectNow();
    expect(first.signal.aborted).toBe(true);
    const late = new ScriptedCarrier();
    first.resolve(late);
    await settle();
    expect(late.closedWith).toBeDefined();
    await t.connect();
    expect(t.phase()).toBe('connected');
  });
});

describe('redial', () => {
  test('the pauses double from 250 ms to 10 s, with jitter of at most a half', () => {
    expect([1, 2, 3, 4, 5, 6, 7, 50].map((n) => pauseAfter(n, 1))).toEqual([250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
    for (let n = 1; n < 40; n++) {
      expect(pauseAfter(n, 0)).toBeGreaterThanOrEqual(FIRST_PAUSE);
      expect(pauseAfter(n, 0)).toBeGreaterThanOrEqual(pauseAfter(n, 1) / 2);
      expect(pauseAfter(n, 1)).toBeLessThanOrEqual(LAST_PAUSE);
    }
  });

  test('never gives up', async () => {
    const t = setup();
    t.session.signedIn = 'unreachable';
    t.connection.connectNow();
    for (let i = 1; i <= 30; i++) {
      expect(t.dials).toHaveLength(i);
      t.dials.at(-1)!.reject(new CarrierError('refused'));
      await vi.advanceTimersByTimeAsync(LAST_PAUSE);
    }
    expect(t.phase()).toBe('connecting');
  });

  test('says when the next attempt is, and a person resets the pause', async () => {
    const t = setup();
    t.connection.connectNow();
    for (let i = 0; i < 8; i++) {
      t.dials.at(-1)!.reject(new CarrierError('refused'));
      await settle();
      if (i < 7) await vi.advanceTimersByTimeAsync(LAST_PAUSE);
    }
    expect(t.connection.state).toMatchObject({ phase: 'waiting', retryAt: Date.now() + LAST_PAUSE });
    t.connection.connectNow();
    expect(t.connection.state).toEqual({ phase: 'connecting', attempt: 1 });
    t.dials.at(-1)!.reject(new CarrierError('refused'));
    await settle();
    expect(t.connection.state).toMatchObject({ retryAt: Date.now() + FIRST_PAUSE });
  });

  test('a generation that lives resets it; one that flaps does not', async () => {
    const t = setup();
    t.connection.connectNow();
    for (let i = 0; i < 6; i++) {
      const c = await t.connect();
      c.break();
      await vi.advanceTimersByTimeAsync(LAST_PAUSE);
    }
    const c = await t.connect();
    await vi.advanceTimersByTimeAsync(10);
    c.break();
    const flapping = t.connection.state;
    expect(flapping.phase === 'waiting' && flapping.retryAt - Date.now()).toBe(LAST_PAUSE);
    await vi.advanceTimersByTimeAsync(LAST_PAUSE);
    const good = await t.connect();
    const beat = setInterval(() => good.frame({ type: 'item', stream: 1, value: { type: 'emit', event: { kind: 'asked', chatId: 'x' } } }), 500);
    await vi.advanceTimersByTimeAsync(STABLE_AFTER);
    clearInterval(beat);
    good.break();
    expect(t.connection.state).toEqual({ phase: 'connecting', attempt: 1 });
  });

  test('4401 ends the retries until somebody signs in', async () => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.connect();
    c.break(CLOSE_SIGNED_OUT);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([t.phase(), t.dials.length]).toEqual(['signed-out', 1]);
    t.connection.setOnline(false);
    t.connection.setOnline(true);
    expect(t.dials).toHaveLength(1);
    t.connection.connectNow();
    expect(t.dials).toHaveLength(2);
  });

  test('a refused dial asks who is signed in: nobody ends the retries', async () => {
    const t = setup();
    t.session.signedIn = false;
    t.connection.connectNow();
    t.dials[0]!.reject(new CarrierError('refused', 1006));
    await settle();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([t.phase(), t.dials.length]).toEqual(['signed-out', 1]);
  });
});

describe("the browser's opinion", () => {
  test('offline suspends the attempts and online restarts them', async () => {
    const t = setup();
    t.connection.connectNow();
    t.dials[0]!.reject(new CarrierError('refused'));
    await settle();
    t.connection.setOnline(false);
    expect(t.phase()).toBe('offline');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(t.dials).toHaveLength(1);
    t.connection.setOnline(true);
    expect(t.dials).toHaveLength(2);
  });

  test('offline does not end a connection that works', async () => {
    const t = setup();
    t.connection.connectNow();
    await t.connect();
    t.connection.setOnline(false);
    expect(t.phase()).toBe('connected');
  });

  test('coming back to the page while waiting tries at once', async () => {
    const t = setup();
    t.connection.connectNow();
    t.dials[0]!.reject(new CarrierError('refused'));
    await settle();
    t.connection.setVisible(false);
    t.connection.setVisible(true);
    expect(t.dials).toHaveLength(2);
  });
});

describe('watchdog', () => {
  test('silence is answered by a question, and an answer keeps the connection', async () => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.connect();
    await vi.advanceTimersByTimeAsync(PROBE_AFTER * HEARTBEAT);
    expect(c.opens('executors.follow')).toHaveLength(1);
    c.item('executors.follow', { type: 'snapshot', executors: [] });
    expect(c.cancelled(c.stream('executors.follow').stream)).toBe(true);
    await vi.advanceTimersByTimeAsync(HEARTBEAT);
    expect(t.phase()).toBe('connected');
  });

  test('silence after the question ends the generation', async () => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.connect();
    await vi.advanceTimersByTimeAsync((PROBE_AFTER + DEAD_AFTER) * HEARTBEAT);
    expect(t.connection.generation).toBeUndefined();
    expect(c.closedWith).toBeDefined();
  });

  test('any frame counts as a sign of life, such as a large snapshot on a slow link', async () => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.connect();
    c.open('chats.list', {}, { item: () => {}, end: () => {}, error: () => {} });
    for (let i = 0; i < 20; i++) {
      await vi.advanceTimersByTimeAsync(HEARTBEAT);
      c.frame({ type: 'part', stream: 2, text: ' ', last: false });
    }
    expect([t.phase(), c.opens('executors.follow').length]).toEqual(['connected', 0]);
  });

  test('after a freeze the server is asked before anything is believed', async () => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.connect();
    t.connection.setVisible(false);
    await vi.advanceTimersByTimeAsync(HEARTBEAT);
    t.connection.setVisible(true);
    expect(c.opens('executors.follow')).toHaveLength(1);
    await vi.advanceTimersByTimeAsync((DEAD_AFTER + 1) * HEARTBEAT);
    expect(t.connection.generation).toBeUndefined();
  });

  test('a page that nobody sees asks nothing', async () => {
    const t = setup();
    t.connection.connectNow();
    const c = await t.connect();
    t.connection.setVisible(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([c.opens('executors.follow').length, t.phase()]).toEqual([0, 'connected']);
  });
});
