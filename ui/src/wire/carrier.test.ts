import { describe, expect, test } from 'vitest';
import { ApiError, CarrierError } from './errors';
import { ScriptedCarrier } from './testing/scripted';
import { CLOSE_PROTOCOL } from './types';

function reader() {
  const got: unknown[] = [];
  return {
    got,
    item: (value: unknown) => void got.push(value),
    end: () => void got.push('end'),
    error: (error: ApiError | CarrierError) => void got.push(error),
  };
}

describe('frames', () => {
  test('streams get numbers that grow and only their own items', () => {
    const c = new ScriptedCarrier();
    const [a, b] = [reader(), reader()];
    c.open('chats.list', {}, a);
    c.open('control.follow', {}, b);
    expect(c.sent).toEqual([
      { type: 'open', stream: 1, name: 'chats.list', args: {} },
      { type: 'open', stream: 2, name: 'control.follow', args: {} },
    ]);
    c.frame({ type: 'item', stream: 2, value: 'for b' });
    expect([a.got, b.got]).toEqual([[], ['for b']]);
  });

  test('an item in parts is applied only when it is complete', () => {
    const c = new ScriptedCarrier();
    const r = reader();
    c.open('chats.list', {}, r);
    const text = JSON.stringify({ big: 'ä'.repeat(10) });
    c.frame({ type: 'part', stream: 1, text: text.slice(0, 7), last: false });
    c.frame({ type: 'part', stream: 1, text: text.slice(7, 12), last: false });
    expect(r.got).toEqual([]);
    c.frame({ type: 'part', stream: 1, text: text.slice(12), last: true });
    expect(r.got).toEqual([JSON.parse(text)]);
  });

  test('parts of two streams do not mix', () => {
    const c = new ScriptedCarrier();
    const [a, b] = [reader(), reader()];
    c.open('chats.list', {}, a);
    c.open('control.follow', {}, b);
    c.frame({ type: 'part', stream: 1, text: '"a', last: false });
    c.frame({ type: 'part', stream: 2, text: '"b', last: false });
    c.frame({ type: 'part', stream: 1, text: '1"', last: true });
    c.frame({ type: 'part', stream: 2, text: '2"', last: true });
    expect([a.got, b.got]).toEqual([['a1'], ['b2']]);
  });

  // Go leaves out members with zero values.
  test('a part may come without text or last', () => {
    const c = new ScriptedCarrier();
    const r = reader();
    c.open('chats.list', {}, r);
    c.receive('{"type":"part","stream":1,"text":"1"}');
    c.receive('{"type":"part","stream":1,"last":true}');
    expect(r.got).toEqual([1]);
  });

  test('an error frame ends its stream with a business error', () => {
    const c = new ScriptedCarrier();
    const r = reader();
    c.open('chat.follow', {}, r);
    c.fail('chat.follow', 'CHAT_NOT_FOUND', 'gone');
    expect(r.got).toHaveLength(1);
    expect(r.got[0]).toMatchObject({ code: 'CHAT_NOT_FOUND', message: 'gone' });
    expect(c.closedWith).toBeUndefined();
  });

  test('what is on the way of a cancelled stream is dropped until its end', () => {
    const c = new ScriptedCarrier();
    const r = reader();
    c.open('chats.list', {}, r).cancel();
    expect(c.cancelled(1)).toBe(true);
    c.frame({ type: 'item', stream: 1, value: 1 });
    c.frame({ type: 'end', stream: 1 });
    expect([r.got, c.closedWith]).toEqual([[], undefined]);
    c.frame({ type: 'item', stream: 1, value: 2 });
    expect(c.closedWith?.code).toBe(CLOSE_PROTOCOL);
  });

  test('a broken carrier tells every reader once and opens nothing any more', async () => {
    const c = new ScriptedCarrier();
    const [a, late] = [reader(), reader()];
    c.open('chats.list', {}, a);
    c.break();
    c.break();
    expect(a.got).toHaveLength(1);
    c.open('chats.list', {}, late);
    await Promise.resolve();
    expect(late.got[0]).toBeInstanceOf(CarrierError);
    expect(c.sent).toHaveLength(1);
  });
});

describe('a frame that breaks the protocol closes the carrier', () => {
  const bad: Record<string, unknown> = {
    binary: new ArrayBuffer(8),
    'not JSON': '{',
    'no object': '[]',
    null: 'null',
    'an unknown type': '{"type":"ping","stream":1}',
    'a member too many': '{"type":"end","stream":1,"value":1}',
    'a member of another type': '{"type":"item","stream":1,"value":1,"error":{"code":"X","message":""}}',
    'no value': '{"type":"item","stream":1}',
    'no stream': '{"type":"end"}',
    'a stream that is a text': '{"type":"end","stream":"1"}',
    'a stream that is a fraction': '{"type":"end","stream":1.5}',
    'a stream that was not opened': '{"type":"item","stream":9,"value":1}',
    'an error without a code': '{"type":"error","stream":1,"error":{"message":"x"}}',
    'parts that are not JSON': '{"type":"part","stream":1,"text":"{","last":true}',
  };
  test.each(Object.entries(bad))('%s', (_, data) => {
    const c = new ScriptedCarrier();
    const r = reader();
    c.open('chats.list', {}, r);
    c.receive(data);
    expect(c.closedWith?.code).toBe(CLOSE_PROTOCOL);
    expect(r.got).toEqual([expect.any(CarrierError)]);
  });

  test('an item between parts', () => {
    const c = new ScriptedCarrier();
    c.open('chats.list', {}, reader());
    c.frame({ type: 'part', stream: 1, text: '[', last: false });
    c.frame({ type: 'item', stream: 1, value: 1 });
    expect(c.closedWith?.code).toBe(CLOSE_PROTOCOL);
  });
});
