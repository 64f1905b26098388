/**
 * The icons, drawn on a 16 px grid with a 1.5 px stroke in the current colour.
 * An icon is a list of shapes; "fill" ones are solid.
 */
export interface Shape {
  d: string;
  fill?: boolean;
  /** A broken line: something that is away. */
  dashed?: boolean;
}

const line = (...paths: string[]): Shape[] => paths.map((d) => ({ d }));
const solid = (...paths: string[]): Shape[] => paths.map((d) => ({ d, fill: true }));
const ring = 'M8 2.75a5.25 5.25 0 1 0 0 10.5a5.25 5.25 0 0 0 0-10.5';

export const icons = {
  // Phases: shape first, colour last.
  running: [{ d: ring }, { d: 'M8 8V2.75A5.25 5.25 0 0 1 13.25 8z', fill: true }],
  waiting: solid('M8 2l6 6l-6 6l-6-6z'),
  queued: line('M3 4.5h10', 'M3 8h10', 'M3 11.5h10'),
  paused: line('M6 3.5v9', 'M10 3.5v9'),
  failed: line(ring, 'M6 6l4 4', 'M10 6l-4 4'),
  away: [{ d: ring, dashed: true }],
  unread: solid('M8 4a4 4 0 1 0 0 8a4 4 0 0 0 0-8'),
  ok: line('M3 8.5l3.25 3.25L13 4.75'),
  hollow: line('M8 2.5l5.5 5.5L8 13.5L2.5 8z'),

  plus: line('M8 3v10', 'M3 8h10'),
  minus: line('M3 8h10'),
  close: line('M4 4l8 8', 'M12 4l-8 8'),
  search: line('M7 2.75a4.25 4.25 0 1 0 0 8.5a4.25 4.25 0 0 0 0-8.5', 'M10.2 10.2L13.5 13.5'),
  more: solid('M3.5 6.75a1.25 1.25 0 1 0 0 2.5a1.25 1.25 0 0 0 0-2.5', 'M8 6.75a1.25 1.25 0 1 0 0 2.5a1.25 1.25 0 0 0 0-2.5', 'M12.5 6.75a1.25 1.25 0 1 0 0 2.5a1.25 1.25 0 0 0 0-2.5'),
  down: line('M4 6l4 4l4-4'),
  up: line('M4 10l4-4l4 4'),
  left: line('M10 3.5L5.5 8l4.5 4.5'),
  right: line('M6 3.5L10.5 8L6 12.5'),
  arrowdown: line('M8 3v10', 'M4 9l4 4l4-4'),
  arrowup: line('M8 13V3', 'M4 7l4-4l4 4'),
  folder: line('M2 4.25V12a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1V6a1 1 0 0 0-1-1H8L6.5 3.25H3a1 1 0 0 0-1 1z'),
  chat: line('M2.5 3.5h11v7.5H7.5L4.5 13.5V11h-2z'),
  settings: line('M8 5.75a2.25 2.25 0 1 0 0 4.5a2.25 2.25 0 0 0 0-4.5', 'M8 1.75v2M8 12.25v2M1.75 8h2M12.25 8h2M3.6 3.6l1.4 1.4M11 11l1.4 1.4M12.4 3.6L11 5M5 11l-1.4 1.4'),
  agents: line('M3.5 5.5h9v7h-9z', 'M8 5.5V3', 'M6.25 8.25v1.5', 'M9.75 8.25v1.5', 'M1.75 8v2.5', 'M14.25 8v2.5'),
  sidebar: line('M2 3h12v10H2z', 'M6 3v10'),
  split: line('M2 3h12v10H2z', 'M8 3v10'),
  keyboard: line('M1.75 4.5h12.5v7H1.75z', 'M4 7h.01M6.5 7h.01M9 7h.01M11.5 7h.01M5 9.25h6'),
  copy: line('M5.5 5.5h7.5v8H5.5z', 'M10.5 5.5v-3H3v8h2.5'),
  check: line('M3 8.5l3.25 3.25L13 4.75'),
  stop: solid('M4 4h8v8H4z'),
  play: solid('M5 3.5v9l7.5-4.5z'),
  send: line('M8 13V3.5', 'M4 7.25L8 3.25l4 4'),
  attach: line('M12.5 7.5L7.75 12.25a3 3 0 0 1-4.25-4.25L8.6 2.9a2 2 0 0 1 2.85 2.85L6.6 10.6a.9.9 0 0 1-1.3-1.3L9.5 5'),
  edit: line('M3 13l.75-3L10.5 3.25l2.25 2.25L6 12.25z'),
  trash: line('M3 4.5h10', 'M6 4.5V2.75h4V4.5', 'M4.25 4.5l.5 8.75h6.5l.5-8.75'),
  pin: line('M6 2.75h4l-.5 4l2 2v1.5h-7v-1.5l2-2z', 'M8 10.25V14'),
  archive: line('M2.25 3h11.5v3H2.25z', 'M3.25 6v7h9.5V6', 'M6.5 8.5h3'),
  tag: line('M2.5 2.5h5.25L13.5 8.25L8.25 13.5L2.5 7.75z', 'M5.25 5.25h.01'),
  link: line('M6.75 9.25l2.5-2.5', 'M7.5 4.75l1.25-1.25a2.65 2.65 0 0 1 3.75 3.75L11.25 8.5', 'M8.5 11.25l-1.25 1.25a2.65 2.65 0 0 1-3.75-3.75L4.75 7.5'),
  external: line('M9 2.75h4.25V7', 'M13 3L7.5 8.5', 'M11.25 9.5v3.75h-8.5v-8.5H6.5'),
  retry: line('M13 8a5 5 0 1 1-1.5-3.55', 'M13.25 2.25v2.75H10.5'),
  warn: line('M8 2.25L14.25 13H1.75z', 'M8 6.5v3', 'M8 11.25h.01'),
  info: line(ring, 'M8 7.5v3.25', 'M8 5.25h.01'),
  key: line('M5 7.5a2.75 2.75 0 1 0 0 5.5a2.75 2.75 0 0 0 0-5.5', 'M7 8.5l6-6', 'M10.5 5l2 2'),
  out: line('M6.5 2.75H3v10.5h3.5', 'M6 8h7.5', 'M10.5 5l3 3l-3 3'),
  bolt: line('M9 1.75L3.5 9h4L7 14.25L12.5 7h-4z'),
  wrap: line('M2.5 4h11', 'M2.5 8h9a2 2 0 0 1 0 4H8.5', 'M10 10.25L8.25 12L10 13.75', 'M2.5 12H5'),
  image: line('M2.25 3h11.5v10H2.25z', 'M2.5 11l3.5-3.5l3 3l1.5-1.5l3 3', 'M10.25 6h.01'),
  file: line('M4 2h5l3.5 3.5V14H4z', 'M9 2v3.5h3.5'),
  terminal: line('M2 3h12v10H2z', 'M4.75 6l2 2l-2 2', 'M8.5 10.25h2.75'),
  todo: line('M2.5 4.5l1 1L5.25 3.5', 'M7.5 4.5h6', 'M2.5 10.5l1 1l1.75-2', 'M7.5 10.75h6'),
  globe: line(ring, 'M2.75 8h10.5', 'M8 2.75c2.5 2.8 2.5 7.7 0 10.5', 'M8 2.75c-2.5 2.8-2.5 7.7 0 10.5'),
  tool: line('M9.6 6.4L3 13', 'M13.25 4.5a3.1 3.1 0 0 1-4.1 3.6a3.1 3.1 0 0 1-.9-4.2a3.1 3.1 0 0 1 3-1.4L9.5 4.25l.4 1.9l1.9.35z'),
  think: line('M8 2.5a4 4 0 0 0-2.25 7.3V11.5h4.5V9.8A4 4 0 0 0 8 2.5', 'M6.5 13.75h3'),
  person: line('M8 2.75a2.5 2.5 0 1 0 0 5a2.5 2.5 0 0 0 0-5', 'M3 13.5a5 5 0 0 1 10 0'),
  branch: line('M4.5 2.5v11', 'M4.5 10.5c0-3 6.5-2 6.5-5.5', 'M11 2.5a1.25 1.25 0 1 0 0 2.5a1.25 1.25 0 0 0 0-2.5'),
  compact: line('M3 8h10', 'M8 1.75v3.5M5.75 3.5L8 5.5l2.25-2', 'M8 14.25v-3.5M5.75 12.5L8 10.5l2.25 2'),
  grip: solid('M5.75 3.25h1.5v1.5h-1.5zM8.75 3.25h1.5v1.5h-1.5zM5.75 7.25h1.5v1.5h-1.5zM8.75 7.25h1.5v1.5h-1.5zM5.75 11.25h1.5v1.5h-1.5zM8.75 11.25h1.5v1.5h-1.5z'),
  theme: [{ d: ring }, { d: 'M8 2.75a5.25 5.25 0 0 1 0 10.5z', fill: true }],
  bell: line('M4 11V7.25a4 4 0 0 1 8 0V11l1.25 1.25H2.75z', 'M6.75 14h2.5'),
  eye: line('M1.75 8S4 3.75 8 3.75S14.25 8 14.25 8S12 12.25 8 12.25S1.75 8 1.75 8z', 'M8 6.25a1.75 1.75 0 1 0 0 3.5a1.75 1.75 0 0 0 0-3.5'),
  question: line(ring, 'M6.4 6.4a1.65 1.65 0 1 1 2.2 1.6c-.45.2-.6.5-.6 1', 'M8 11h.01'),
} satisfies Record<string, Shape[]>;

export type IconName = keyof typeof icons;
