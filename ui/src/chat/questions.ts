// The answers to the questions of one card, while they are being chosen.

import type { QuestionItem } from '../wire/types';

/** What is chosen for one question: labels, and text that is none of them. */
export interface Choice {
  readonly labels: readonly string[];
  readonly text: string;
}

export function begin(): Choice {
  return { labels: [], text: '' };
}

/** Chooses an option; of several, or one, as the question says. */
export function choose(q: QuestionItem, c: Choice, label: string): Choice {
  if (!q.multi) return { labels: [label], text: '' };
  const labels = c.labels.includes(label) ? c.labels.filter((l) => l !== label) : [...c.labels, label];
  return { ...c, labels };
}

/** Whether every question has an answer. */
export function canSend(questions: readonly QuestionItem[], choices: Readonly<Record<string, Choice>>): boolean {
  return questions.every((q) => answer(q, choices[q.id]).length > 0);
}

/** The answers as they are sent, in the order of the options. */
export function answersOf(questions: readonly QuestionItem[], choices: Readonly<Record<string, Choice>>): Record<string, string[]> {
  return Object.fromEntries(questions.map((q) => [q.id, answer(q, choices[q.id])]));
}

function answer(q: QuestionItem, c: Choice | undefined): string[] {
  if (!c) return [];
  const text = q.secret ? c.text : c.text.trim();
  const free = (q.freeText || !q.options?.length) && text !== '' ? [text] : [];
  const labels = (q.options ?? []).map((o) => o.label).filter((l) => c.labels.includes(l));
  // What was typed is the answer to a question that takes one.
  return q.multi ? [...labels, ...free] : free.length > 0 ? free : labels.slice(0, 1);
}
