import { expect, test } from 'vitest';
import { loginSecret } from './model/session.svelte';
import type { View } from './model/panes.svelte';
import { formatHash, parseHash } from './route';

test('views and addresses are the same thing', () => {
  const views: View[] = [{ kind: 'chat', chatId: 'a/b ü#?' }, { kind: 'chat', chatId: 'a', child: 'x/y' }, { kind: 'agents' }, { kind: 'settings' }, { kind: 'settings', section: 'keys' }];
  for (const view of views) expect(parseHash(formatHash(view))).toEqual(view);
  for (const hash of ['', '#', '#login=x', '#/', '#/chat', '#/chat/', '#/git', '#/chat/%E0%A4%A', 'https://evil']) expect(parseHash(hash)).toBeUndefined();
});

test('only the fragment of a login link has a secret', () => {
  expect(loginSecret('#login=ABC')).toBe('ABC');
  for (const hash of ['', '#login=', '#login', '#/login=ABC', '#xlogin=ABC']) expect(loginSecret(hash)).toBeUndefined();
});
