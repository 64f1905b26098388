import { untrack } from 'svelte';

/**
 * What the two live regions say: "polite" waits for the reader, "assertive"
 * interrupts and is only for an approval of the chat in front.
 */
class Announcer {
  polite = $state('');
  assertive = $state('');

  /** Says a sentence. The same sentence twice in a row is said twice. */
  say(text: string, urgent = false): void {
    const region = urgent ? 'assertive' : 'polite';
    // An effect that says something must not depend on what was said before. A
    // region whose text does not change is not read again.
    const before = untrack(() => this[region]);
    this[region] = before === text ? `${text}\u00a0` : text;
  }
}

export const announcer = new Announcer();
export const announce = (text: string, urgent = false): void => announcer.say(text, urgent);
