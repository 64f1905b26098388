import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ASK_DELAY, COOLDOWN, DWELL, LONG_RUN, MANY_WINDOW, Notifier, type Note } from './notify';

function setup() {
  const here = { present: false, visible: false, looking: '' };
  const shown: Note[] = [];
  const withdrawn: string[] = [];
  const notifier = new Notifier({
    show: (n) => void shown.push(n),
    withdraw: (t) => void withdrawn.push(t),
    present: () => here.present,
    visible: () => here.visible,
    lookingAt: (c) => here.looking === c,
  });
  return { here, shown, withdrawn, notifier, titles: () => shown.map((n) => n.title) };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('open requests', () => {
  test('are shown at once when nobody can see the page, and once', () => {
    const t = setup();
    t.notifier.asked('o', 'c', 'Chat', '');
    t.notifier.asked('o', 'c', 'Chat', '');
    expect(t.titles()).toEqual(['Chat']);
  });

  test('wait for five seconds when the page can be seen', async () => {
    const t = setup();
    t.here.visible = true;
    t.notifier.asked('o', 'c', 'Chat', '');
    await vi.advanceTimersByTimeAsync(ASK_DELAY - 1);
    expect(t.shown).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(t.titles()).toEqual(['Chat']);
  });

  test('are not shown to somebody who is there', async () => {
    const t = setup();
    Object.assign(t.here, { visible: true, present: true });
    t.notifier.asked('o', 'c', 'Chat', '');
    await vi.advanceTimersByTimeAsync(ASK_DELAY);
    expect(t.shown).toEqual([]);
  });

  test('are withdrawn when somebody answers anywhere, before and after', async () => {
    const t = setup();
    t.notifier.asked('o', 'c', 'Chat', '');
    t.notifier.settled('o');
    expect(t.withdrawn).toEqual(['ask o']);
    t.here.visible = true;
    t.notifier.asked('p', 'c', 'Chat', '');
    t.notifier.settled('p');
    await vi.advanceTimersByTimeAsync(ASK_DELAY);
    expect(t.shown).toHaveLength(1);
  });

  test('two equal ones are two', () => {
    const t = setup();
    t.notifier.asked('o', 'c', 'Chat', 'same');
    t.notifier.asked('p', 'c', 'Chat', 'same');
    expect(t.shown.map((n) => n.tag)).toEqual(['ask o', 'ask p']);
  });

  test('more than three in ten seconds become one', async () => {
    const t = setup();
    for (const c of ['a', 'b', 'c', 'd']) t.notifier.asked(c, c, c, '');
    expect(t.titles()).toEqual(['a', 'b', 'c', '4 chats need you']);
    expect(t.withdrawn).toEqual(['ask a', 'ask b', 'ask c']);
    await vi.advanceTimersByTimeAsync(MANY_WINDOW);
    t.notifier.asked('e', 'e', 'e', '');
    expect(t.titles().at(-1)).toBe('e');
  });
});

describe('the end of a run', () => {
  test('a short run ends without a word, a long one after the dwell', async () => {
    const t = setup();
    t.notifier.finished('c', LONG_RUN - 1, 'Chat', '');
    await vi.advanceTimersByTimeAsync(DWELL);
    expect(t.shown).toEqual([]);
    t.notifier.finished('c', LONG_RUN, 'Chat', '');
    await vi.advanceTimersByTimeAsync(DWELL - 1);
    expect(t.shown).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(t.titles()).toEqual(['Chat']);
  });

  test('the next message of the queue cancels it', async () => {
    const t = setup();
    t.notifier.finished('c', LONG_RUN, 'Chat', '');
    t.notifier.started('c');
    await vi.advanceTimersByTimeAsync(DWELL);
    expect(t.shown).toEqual([]);
  });

  test('not more than one in a minute for each chat', async () => {
    const t = setup();
    t.notifier.failed('c', 'first', '');
    t.notifier.failed('c', 'second', '');
    t.notifier.failed('d', 'other', '');
    await vi.advanceTimersByTimeAsync(COOLDOWN);
    t.notifier.failed('c', 'third', '');
    expect(t.titles()).toEqual(['first', 'other', 'third']);
  });

  test('not to somebody who looks at the chat; only people count', () => {
    const t = setup();
    Object.assign(t.here, { visible: true, present: true, looking: 'c' });
    t.notifier.failed('c', 'seen', '');
    t.here.present = false;
    t.notifier.failed('c', 'unseen', '');
    expect(t.titles()).toEqual(['unseen']);
  });

  test('looking at the chat withdraws it', () => {
    const t = setup();
    t.notifier.failed('c', 'Chat', '');
    t.notifier.seen('c');
    expect(t.withdrawn).toEqual(['end c']);
  });
});
