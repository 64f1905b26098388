// The part of a transcript that is in memory: contiguous rows around the view.

import type { FollowSnapshot, Page, Row } from '../wire/types';

/**
 * How many rows are kept. It bounds memory, and the height stays under the
 * tallest element browsers allow (about 16.7 million pixels).
 */
export const MAX_ROWS = 4000;
/** How many rows more are dropped at once, so that not every row drops another. */
const SLACK = 500;
/** How many ordinals one page downwards covers; a page of at most 500 messages always holds all of them. */
export const FORWARD_STEP = 400;

/** A contiguous piece of a transcript. */
export interface Window {
  readonly view: string;
  readonly rows: readonly Row[];
  /** Whether there are rows before the first. */
  readonly older: boolean;
  /** Whether the last row is the newest there is. */
  readonly end: boolean;
  /** The ordinal of the newest row there is, -1 for none. */
  readonly cursor: number;
}

/** What a change did to the window. */
export interface Change {
  readonly window: Window;
  /** Whether rows came or went at the start; the list keeps its distance from the end then. */
  readonly shift: boolean;
}

export const EMPTY: Window = { view: '', rows: [], older: false, end: true, cursor: -1 };

/** The first window of a follow. */
export function open(snapshot: FollowSnapshot): Window {
  return { view: snapshot.view, rows: snapshot.rows, older: snapshot.hasMore, end: true, cursor: snapshot.cursor };
}

/**
 * Takes in the snapshot of another generation. Joined says that its rows go on
 * from those published before; a reader in the middle keeps the rows in view.
 */
export function rejoin(w: Window, snapshot: FollowSnapshot, joined: boolean, following: boolean): Change {
  const same = snapshot.view === w.view && snapshot.cursor >= w.cursor;
  if (!same || (!joined && w.end)) return { window: open(snapshot), shift: false };
  return append(w, snapshot.rows, snapshot.cursor, following);
}

/** Adds new rows at the end. A reader who is elsewhere keeps the rows in view; the end is fetched again later. */
export function append(w: Window, rows: readonly Row[], cursor: number, following: boolean): Change {
  const newest = Math.max(cursor, w.cursor);
  if (!w.end) return { window: { ...w, cursor: newest }, shift: false };
  const fresh = after(rows, w.rows.at(-1)?.ordinal ?? -1);
  const all = fresh.length === 0 ? w.rows : [...w.rows, ...fresh];
  if (all.length <= MAX_ROWS) return { window: { ...w, rows: all, cursor: newest }, shift: false };
  if (!following) return { window: { ...w, end: false, cursor: newest }, shift: false };
  return { window: { ...w, rows: all.slice(all.length - MAX_ROWS + SLACK), older: true, cursor: newest }, shift: true };
}

/** Adds an older page; the far end goes when there are too many rows. */
export function prepend(w: Window, page: Page): Change {
  if (page.view !== w.view) return { window: w, shift: false };
  const first = w.rows[0]?.ordinal ?? Infinity;
  const fresh = page.rows.filter((r) => r.ordinal < first);
  const all = [...fresh, ...w.rows];
  const base = { ...w, older: page.hasMore };
  if (all.length <= MAX_ROWS) return { window: { ...base, rows: all }, shift: fresh.length > 0 };
  return { window: { ...base, rows: all.slice(0, MAX_ROWS - SLACK), end: false }, shift: true };
}

/** What to ask for to go on after the last row. */
export function forward(w: Window): { through: number; before?: number } {
  const before = (w.rows.at(-1)?.ordinal ?? -1) + 1 + FORWARD_STEP;
  return before > w.cursor ? { through: w.cursor } : { through: w.cursor, before };
}

/** Adds the page that [forward] asked for; the start goes when there are too many rows. */
export function extend(w: Window, page: Page, asked: { through: number; before?: number }): Change {
  if (page.view !== w.view) return { window: w, shift: false };
  const all = [...w.rows, ...after(page.rows, w.rows.at(-1)?.ordinal ?? -1)];
  // Rows that came while the page was on its way are still missing.
  const end = asked.before === undefined && asked.through >= w.cursor;
  const dropped = Math.max(0, all.length - MAX_ROWS + (all.length > MAX_ROWS ? SLACK : 0));
  return { window: { ...w, rows: all.slice(dropped), older: w.older || dropped > 0, end }, shift: dropped > 0 };
}

/** What to ask for to see the beginning. */
export function beginning(w: Window): { through: number; before?: number } {
  return w.cursor < FORWARD_STEP ? { through: w.cursor } : { through: w.cursor, before: FORWARD_STEP };
}

/** Replaces the window by the page that was asked for, to jump. */
export function replace(w: Window, page: Page, asked: { through: number; before?: number }): Change {
  const end = asked.before === undefined && page.through >= w.cursor;
  return { window: { view: page.view, rows: page.rows, older: page.hasMore, end, cursor: Math.max(w.cursor, page.through) }, shift: false };
}

function after(rows: readonly Row[], ordinal: number): readonly Row[] {
  return rows.length === 0 || rows[0]!.ordinal > ordinal ? rows : rows.filter((r) => r.ordinal > ordinal);
}
