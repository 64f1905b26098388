// Times, sizes and counts as people read them.

export { count, timeOfDay } from '../words/words';

const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });

/** Date and time. */
export function dateTime(ms: number): string {
  return full.format(ms);
}

/** A duration in milliseconds: "0.1 s", "12 s", "3 min 4 s", "2 h 5 min". */
export function duration(ms: number): string {
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 === 0 ? `${s / 60} min` : `${Math.floor(s / 60)} min ${s % 60} s`;
  const min = Math.floor((s % 3600) / 60);
  return min === 0 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 3600)} h ${min} min`;
}

/** A size in bytes. */
export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1 << 20) return `${(n / 1024).toFixed(n < 10240 ? 1 : 0)} KiB`;
  return `${(n / (1 << 20)).toFixed(n < 10 << 20 ? 1 : 0)} MiB`;
}

/** A count of tokens: "950", "12.4k", "1.2M". */
export function tokens(n: number): string {
  if (n < 1000) return `${n}`;
  if (n < 999_950) return `${(n / 1000).toFixed(n < 99_950 ? 1 : 0)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

/** A price in US dollars. */
export function cost(usd: number): string {
  return `$${usd.toFixed(usd < 0.1 ? 4 : 2)}`;
}
