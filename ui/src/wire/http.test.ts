import { describe, expect, test } from 'vitest';
import { Api } from './api';
import { Http } from './http';

function setup(answer: (url: URL, init: RequestInit) => Response | Promise<Response>, instance: string | null = 'server 1') {
  const calls: { url: URL; init: RequestInit }[] = [];
  let signedOut = 0;
  const http = new Http({
    base: 'https://host/base/api/v1/',
    instance: () => instance ?? undefined,
    onUnauthorized: () => void signedOut++,
    fetch: (async (input: string, init: RequestInit) => {
      const url = new URL(input);
      calls.push({ url, init });
      return answer(url, init);
    }) as typeof fetch,
  });
  return { api: new Api(http), http, calls, signedOut: () => signedOut };
}
const json = (value: unknown, status = 200): Response => new Response(JSON.stringify(value), { status, headers: { 'Content-Type': 'application/json' } });
const envelope = (code: string, status: number, more: object = {}): Response => json({ error: { code, message: 'm', ...more } }, status);

describe('requests', () => {
  test('say who they are from and which server they mean, below the base path', async () => {
    const t = setup(() => json({ stopped: true }));
    await t.api.stop('a/b', { turnId: 't' });
    const { url, init } = t.calls[0]!;
    const headers = init.headers as Headers;
    expect([init.method, url.pathname]).toEqual(['POST', '/base/api/v1/chats/a%2Fb/stop']);
    expect([headers.get('X-Garcon-Client'), headers.get('X-Garcon-Server-Instance'), headers.get('Content-Type')]).toEqual(['browser', 'server 1', 'application/json']);
    expect([init.body, init.credentials, init.redirect]).toEqual(['{"turnId":"t"}', 'same-origin', 'error']);
  });

  test('a change without a body still has its type', async () => {
    const t = setup(() => json({}));
    await t.api.pauseQueue('c');
    expect([(t.calls[0]!.init.headers as Headers).get('Content-Type'), t.calls[0]!.init.body]).toEqual(['application/json', undefined]);
  });

  test('an upload has the type of the file', async () => {
    const t = setup(() => json({ digest: 'd', size: 1, name: 'n', mediaType: 'image/png' }));
    await t.api.upload(new Blob(['x'], { type: 'image/png' }), 'a b.png');
    expect([(t.calls[0]!.init.headers as Headers).get('Content-Type'), t.calls[0]!.url.search]).toEqual(['image/png', '?name=a+b.png']);
  });

  test('parameters without a value are left out', async () => {
    const t = setup(() => json({ chatId: 'c', view: 'v', through: 3, rows: null, hasMore: false }));
    expect((await t.api.page('c', { through: 3, max: 10, before: undefined })).rows).toEqual([]);
    expect(t.calls[0]!.url.search).toBe('?through=3&max=10');
  });

  test('before the first ready only the login and its question go out', async () => {
    const t = setup(() => json({ signedIn: false, passwordSet: true, noAuth: false }), null);
    await expect(t.api.settings()).rejects.toMatchObject({ code: 'NOT_CONNECTED', dispatched: 'no' });
    await t.api.session();
    await t.api.login({ password: 'x' });
    expect(t.calls).toHaveLength(2);
  });
});

describe('failures', () => {
  test('an answer that broke off signs nobody out', async () => {
    for (const torn of ['', '{', '{"signedIn":', '{}', '{"signedIn":null}']) {
      const t = setup(() => new Response(torn, { status: 200, headers: { 'Content-Type': 'application/json' } }));
      await expect(t.api.session()).rejects.toThrow();
      expect(t.signedOut()).toBe(0);
    }
  });

  test('of the server keep code, hint and details', async () => {
    const t = setup(() => envelope('EXECUTOR_UNAVAILABLE', 503, { hint: 'h', details: { dispatched: 'no', retryAfterMs: 5 } }));
    await expect(t.api.show('c')).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE', status: 503, hint: 'h', dispatched: 'no', retryAfterMs: 5 });
  });

  test('of a proxy are not taken for the server', async () => {
    const t = setup(() => new Response('<html>502</html>', { status: 502 }));
    await expect(t.api.show('c')).rejects.toMatchObject({ code: 'PROTOCOL', status: 502, dispatched: 'unknown' });
  });

  test('an answer that is not JSON is one too', async () => {
    const t = setup(() => new Response('<html>', { status: 200 }));
    await expect(t.api.show('c')).rejects.toMatchObject({ code: 'PROTOCOL' });
  });

  test('of the network: a question had no effect, a change may have had one', async () => {
    const t = setup(() => Promise.reject(new TypeError('failed to fetch')));
    await expect(t.api.settings()).rejects.toMatchObject({ code: 'CONNECTION_LOST', dispatched: 'no' });
    await expect(t.api.stop('c', {})).rejects.toMatchObject({ code: 'CONNECTION_LOST', dispatched: 'unknown' });
  });

  test('nobody signed in is told once for each answer', async () => {
    const t = setup(() => envelope('UNAUTHORIZED', 401));
    await expect(t.api.settings()).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    expect(t.signedOut()).toBe(1);
  });

  test("the caller's own end is the caller's reason", async () => {
    const end = new AbortController();
    const t = setup((_, init) => new Promise((__, reject) => init.signal!.addEventListener('abort', () => reject(new DOMException('', 'AbortError')))));
    const request = t.api.session(end.signal);
    end.abort(new Error('mine'));
    await expect(request).rejects.toThrow('mine');
  });
});
