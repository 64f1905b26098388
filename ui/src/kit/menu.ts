import type { IconName } from './icons';

/** One entry of a menu. */
export interface MenuItem {
  label: string;
  icon?: IconName;
  /** Keys that do the same, as shown to people. */
  keys?: string;
  /** A second line. */
  detail?: string;
  danger?: boolean;
  /** Draws a line above. */
  separated?: boolean;
  /** Makes it a radio or checkbox entry. */
  checked?: boolean;
  /** Why it does nothing now. */
  reason?: string;
  run: () => void;
}

/**
 * Returns the entry that a key moves to in a list of n, or undefined when the
 * key does not move. It wraps around.
 */
export function roving(key: string, at: number, n: number): number | undefined {
  if (n === 0) return undefined;
  switch (key) {
    case 'ArrowDown':
      return (at + 1) % n;
    case 'ArrowUp':
      return (at - 1 + n) % n;
    case 'Home':
      return 0;
    case 'End':
      return n - 1;
  }
  return undefined;
}

/** Returns the next entry whose label begins with the typed letter. */
export function typed(letter: string, at: number, labels: readonly string[]): number | undefined {
  if (letter.length !== 1 || letter === ' ') return undefined;
  const wanted = letter.toLowerCase();
  for (let step = 1; step <= labels.length; step++) {
    const i = (at + step) % labels.length;
    if (labels[i]?.toLowerCase().startsWith(wanted)) return i;
  }
  return undefined;
}
