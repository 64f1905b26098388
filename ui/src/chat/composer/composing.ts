// What the composer does with what is typed, without a DOM.

import type { BusyPolicy, Command, Control } from '../../wire/types';

/** Pasted text above this becomes a file, in characters. */
export const MAX_PASTE = 32 << 10;

/** Whether something runs that a message would have to wait for. */
export function busy(control: Pick<Control, 'phase' | 'queue'> | undefined): boolean {
  return control !== undefined && control.phase !== 'idle';
}

export type Verb = 'send' | 'queue' | 'steer' | 'interrupt';

/** What a chat can do with a message now. The first is what the button does. */
export function verbs(isBusy: boolean, steerable: boolean): readonly [Verb, ...Verb[]] {
  if (!isBusy) return ['send'];
  return steerable ? ['queue', 'steer', 'interrupt'] : ['queue', 'interrupt'];
}

/** What a key does: Enter the first verb, mod+Enter the other of queue and steer, mod+Shift+Enter interrupts. */
export function verbOf(command: 'send' | 'send-other' | 'interrupt', offered: readonly [Verb, ...Verb[]]): Verb {
  if (command === 'interrupt') return offered.includes('interrupt') ? 'interrupt' : offered[0];
  if (command === 'send-other') return offered[1] === 'steer' ? 'steer' : offered[0];
  return offered[0];
}

/** The policy a verb is sent with. */
export function policy(verb: Verb): BusyPolicy {
  return verb === 'send' ? 'queue' : verb;
}

/** The name that is being typed after a slash at the beginning, undefined when none is. */
export function slash(text: string, cursor: number): string | undefined {
  const m = /^\/(\S*)$/.exec(text.slice(0, cursor));
  return m?.[1];
}

/** The commands whose names or words match, those that begin with it first. */
export function matching(commands: readonly Command[], typed: string, limit = 50): Command[] {
  const wanted = typed.toLowerCase();
  const begins = commands.filter((c) => c.name.toLowerCase().startsWith(wanted));
  const rest = commands.filter((c) => !begins.includes(c) && (c.name.toLowerCase().includes(wanted) || (wanted !== '' && (c.description ?? '').toLowerCase().includes(wanted))));
  return [...begins, ...rest].slice(0, limit);
}

/** The text after a command was chosen, and where the cursor goes. */
export function choose(text: string, cursor: number, name: string): { text: string; cursor: number } {
  const head = `/${name} `;
  return { text: head + text.slice(cursor).trimStart(), cursor: head.length };
}
