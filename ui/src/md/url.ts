// Which addresses of a message may be followed.

import { decodeEntities } from './entities';

const LINK_SCHEMES: ReadonlySet<string> = new Set(['http:', 'https:', 'mailto:']);
/** Picture types a browser draws without running anything. */
const INLINE_IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/;

/** Returns the address a link may lead to, or undefined. Only absolute web and mail addresses are links. */
export function safeLink(href: string): string | undefined {
  const url = parse(href);
  return url && LINK_SCHEMES.has(url.protocol) ? url.href : undefined;
}

/** Where a picture is. */
export type ImageSource = { kind: 'inline'; src: string } | { kind: 'remote'; href: string; host: string };

/** Returns where a picture of a message is, or undefined when it may not be shown. */
export function imageSource(href: string): ImageSource | undefined {
  if (INLINE_IMAGE.test(href)) return { kind: 'inline', src: href };
  const url = parse(href);
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  return { kind: 'remote', href: url.href, host: url.host };
}

function parse(href: string): URL | undefined {
  const text = decodeEntities(href);
  // A browser drops these from an address, which has hidden many a scheme.
  if (/[\x00-\x20\x7f-\x9f\u2028\u2029]/.test(text)) return undefined;
  try {
    const url = new URL(text);
    // "https://bank.example@evil.example" reads as what it is not.
    return url.username !== '' || url.password !== '' ? undefined : url;
  } catch {
    return undefined;
  }
}
