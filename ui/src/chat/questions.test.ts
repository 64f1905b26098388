import { describe, expect, it } from 'vitest';
import type { QuestionItem } from '../wire/types';
import { answersOf, begin, canSend, choose } from './questions';

const one: QuestionItem = { id: 'one', text: '?', options: [{ label: 'a' }, { label: 'b' }], freeText: true };
const many: QuestionItem = { id: 'many', text: '?', options: [{ label: 'x' }, { label: 'y' }], multi: true };
const text: QuestionItem = { id: 'text', text: '?' };

describe('answers', () => {
  it('are one label, or what was typed instead', () => {
    let c = choose(one, begin(), 'a');
    c = choose(one, c, 'b');
    expect(answersOf([one], { one: c })).toEqual({ one: ['b'] });
    expect(answersOf([one], { one: { ...c, text: ' else ' } })).toEqual({ one: ['else'] });
    expect(choose(one, { ...c, text: 'else' }, 'a')).toEqual({ labels: ['a'], text: '' });
  });
  it('are several labels in the order they were offered', () => {
    let c = choose(many, begin(), 'y');
    c = choose(many, c, 'x');
    expect(answersOf([many], { many: c })).toEqual({ many: ['x', 'y'] });
    expect(choose(many, c, 'x').labels).toEqual(['y']);
  });
  it('hold no text where none is taken, and no label that was not offered', () => {
    expect(answersOf([many], { many: { labels: ['z'], text: 'typed' } })).toEqual({ many: [] });
  });
  it('are complete when every question has one', () => {
    expect(canSend([one, text], { one: choose(one, begin(), 'a') })).toBe(false);
    expect(canSend([one, text], { one: choose(one, begin(), 'a'), text: { labels: [], text: ' ' } })).toBe(false);
    expect(canSend([one, text], { one: choose(one, begin(), 'a'), text: { labels: [], text: 'x' } })).toBe(true);
  });
  it('that are secret keep their spaces', () => {
    expect(answersOf([{ ...text, secret: true }], { text: { labels: [], text: ' pass ' } })).toEqual({ text: [' pass '] });
  });
});
