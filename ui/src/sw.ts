// The service worker: it keeps the files of the shell, so that the application
// opens without a network. It never touches the API: what is true comes from
// the server alone.

const worker = self as unknown as ServiceWorkerGlobalScope;

/** Replaced by the build: the hashed files of this build. */
const shell = '__SHELL__' as unknown as string[];
/** One cache for each build: its name is that of the entry, which has a hash. */
const cacheName = `shell ${shell.find((name) => name.startsWith('assets/index-') && name.endsWith('.js')) ?? ''}`;

worker.addEventListener('install', (event) => {
  event.waitUntil(
    (async () => {
      const cache = await caches.open(cacheName);
      await cache.addAll(['./', ...shell].map((name) => new Request(name, { cache: 'reload' })));
      await worker.skipWaiting();
    })(),
  );
});

worker.addEventListener('activate', (event) => {
  event.waitUntil(
    (async () => {
      for (const name of await caches.keys()) if (name.startsWith('shell ') && name !== cacheName) await caches.delete(name);
      await worker.clients.claim();
    })(),
  );
});

const scope = new URL('./', worker.registration.scope).pathname;
const files = new Set(shell.map((name) => scope + name));

worker.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== worker.location.origin) return;
  if (files.has(url.pathname)) {
    event.respondWith(caches.match(request, { ignoreVary: true }).then((hit) => hit ?? fetch(request)));
    return;
  }
  // The page itself: the server's while it answers, so that an update is seen
  // at once.
  if (request.mode === 'navigate' && url.pathname === scope) {
    event.respondWith(fetch(request).catch(async () => (await caches.match('./', { cacheName })) ?? Response.error()));
  }
});

worker.addEventListener('notificationclick', (event) => {
  event.notification.close();
  const chat: unknown = (event.notification.data as { chatId?: unknown } | null)?.chatId;
  const hash = typeof chat === 'string' ? `#/chat/${encodeURIComponent(chat)}` : '';
  event.waitUntil(
    (async () => {
      const open = await worker.clients.matchAll({ type: 'window' });
      const client = open[0];
      if (!client) {
        await worker.clients.openWindow(scope + hash);
        return;
      }
      await client.focus();
      client.postMessage({ type: 'open', chatId: chat });
    })(),
  );
});

export {};
