import { describe, expect, test } from 'vitest';
import { ProtocolError } from './errors';
import { SnapshotStream } from './snapshot';
import { ScriptedLink } from './testing/scripted';

type Item = { type: 'snapshot'; list: number[] } | { type: 'add'; n: number };

function setup() {
  const link = new ScriptedLink();
  const states: number[][] = [];
  const fresh: boolean[] = [];
  const stream = new SnapshotStream<Item, number[]>({
    link, name: 'chats.list',
    decode: (value) => {
      const item = value as Item;
      if (item.type === 'snapshot' && !Array.isArray(item.list)) throw new ProtocolError('no list');
      return item;
    },
    begin: (item) => [...item.list],
    apply: (state, item) => [...state, item.n],
    onState: (s) => void states.push(s),
    onFresh: (f) => void fresh.push(f),
  });
  return { link, stream, states, fresh };
}

describe('SnapshotStream', () => {
  test('is a snapshot, then deltas', () => {
    const { link, stream, states } = setup();
    const c = link.connect();
    c.item('chats.list', { type: 'snapshot', list: [1] });
    c.item('chats.list', { type: 'add', n: 2 });
    expect(states).toEqual([[1], [1, 2]]);
    expect(stream.state).toEqual([1, 2]);
  });

  test('a delta first is a terminal protocol error', () => {
    const { link, stream } = setup();
    link.connect().item('chats.list', { type: 'add', n: 2 });
    expect(stream.status).toMatchObject({ phase: 'failed', error: expect.any(ProtocolError) });
  });

  test('a second snapshot in a generation is a terminal protocol error', () => {
    const { link, stream } = setup();
    const c = link.connect();
    c.item('chats.list', { type: 'snapshot', list: [1] });
    c.item('chats.list', { type: 'snapshot', list: [2] });
    expect([stream.status.phase, stream.state]).toEqual(['failed', [1]]);
  });

  test('a delta first in a later generation is one too', () => {
    const { link, stream } = setup();
    const c = link.connect();
    c.item('chats.list', { type: 'snapshot', list: [1] });
    c.break();
    link.connect().item('chats.list', { type: 'add', n: 2 });
    expect([stream.status.phase, stream.state]).toEqual(['failed', [1]]);
  });

  test('the old state stays until the new snapshot has been applied whole', () => {
    const { link, stream, fresh } = setup();
    link.connect().item('chats.list', { type: 'snapshot', list: [1] });
    link.generation!.carrier.close('cut');
    expect([stream.state, fresh]).toEqual([[1], [true, false]]);
    const c = link.connect();
    expect(stream.state).toEqual([1]);
    const text = JSON.stringify({ type: 'snapshot', list: [7, 8] });
    c.frame({ type: 'part', stream: 1, text: text.slice(0, 20), last: false });
    expect(stream.state).toEqual([1]);
    c.frame({ type: 'part', stream: 1, text: text.slice(20), last: true });
    expect([stream.state, fresh]).toEqual([[7, 8], [true, false, true]]);
  });

  test('a snapshot that does not read leaves the old state', () => {
    const { link, stream } = setup();
    link.connect().item('chats.list', { type: 'snapshot', list: [1] });
    link.generation!.carrier.close('cut');
    link.connect().item('chats.list', { type: 'snapshot' });
    expect([stream.state, stream.status.phase]).toEqual([[1], 'failed']);
  });
});
