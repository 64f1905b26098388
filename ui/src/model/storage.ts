// What this browser remembers. Everything tolerates a storage that is full,
// forbidden or of another version: then it lasts as long as the page.

/** A small store of strings. */
export interface Store {
  get(key: string): string | undefined;
  set(key: string, value: string): void;
  remove(key: string): void;
  keys(): string[];
}

const PREFIX = 'garcon.';

/** The browser's local storage under a prefix, or memory where that is not possible. */
export function browserStore(): Store {
  const fallback = memoryStore();
  const attempt = <T>(f: (s: Storage) => T, otherwise: () => T): T => {
    try {
      return f(localStorage);
    } catch {
      return otherwise();
    }
  };
  return {
    get: (key) => fallback.get(key) ?? attempt((s) => s.getItem(PREFIX + key) ?? undefined, () => undefined),
    set: (key, value) => {
      const kept = attempt((s) => (s.setItem(PREFIX + key, value), true), () => false);
      if (kept) fallback.remove(key);
      else fallback.set(key, value);
    },
    remove: (key) => {
      fallback.remove(key);
      attempt((s) => s.removeItem(PREFIX + key), () => {});
    },
    keys: () => {
      const stored = attempt((s) => Object.keys(s).filter((k) => k.startsWith(PREFIX)).map((k) => k.slice(PREFIX.length)), () => []);
      return [...new Set([...stored, ...fallback.keys()])];
    },
  };
}

export function memoryStore(from: Iterable<[string, string]> = []): Store {
  const map = new Map(from);
  return {
    get: (key) => map.get(key),
    set: (key, value) => void map.set(key, value),
    remove: (key) => void map.delete(key),
    keys: () => [...map.keys()],
  };
}

/** Reads JSON; undefined when there is none or it is not of the wanted form. */
export function readJson<T>(store: Store, key: string, check: (value: unknown) => value is T): T | undefined {
  const text = store.get(key);
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return check(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A store of larger values, which answers later. */
export interface LargeStore<T> {
  all(): Promise<Map<string, T>>;
  set(key: string, value: T): Promise<void>;
  remove(key: string): Promise<void>;
}

export function memoryLargeStore<T>(map = new Map<string, T>()): LargeStore<T> {
  return {
    all: () => Promise.resolve(new Map(map)),
    set: (key, value) => {
      map.set(key, structuredClone(value));
      return Promise.resolve();
    },
    remove: (key) => {
      map.delete(key);
      return Promise.resolve();
    },
  };
}

const DATABASE = 'garcon';
const TABLES = ['drafts', 'outbox'] as const;

/** One table of the browser's database, or memory where that is not possible. */
export function indexedStore<T>(table: (typeof TABLES)[number]): LargeStore<T> {
  const fallback = memoryLargeStore<T>();
  let opened: Promise<IDBDatabase> | undefined;
  const open = (): Promise<IDBDatabase> =>
    (opened ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => {
        for (const name of TABLES) request.result.createObjectStore(name);
      };
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error ?? new Error('the database cannot be opened'));
      request.onblocked = () => reject(new Error('the database is blocked'));
    }));
  const run = async <R>(mode: IDBTransactionMode, f: (s: IDBObjectStore) => IDBRequest<R>[]): Promise<R[]> => {
    const db = await open();
    return new Promise((resolve, reject) => {
      const transaction = db.transaction(table, mode);
      const requests = f(transaction.objectStore(table));
      transaction.oncomplete = () => resolve(requests.map((r) => r.result));
      transaction.onabort = () => reject(transaction.error ?? new Error('the database refused'));
    });
  };
  return {
    all: async () => {
      const result = await fallback.all();
      try {
        const [keys, values] = (await run<unknown>('readonly', (s) => [s.getAllKeys() as IDBRequest<unknown>, s.getAll() as IDBRequest<unknown>])) as [string[], T[]];
        keys.forEach((key, i) => {
          if (!result.has(key)) result.set(key, values[i] as T);
        });
      } catch {
        // What is in memory is all there is.
      }
      return result;
    },
    set: async (key, value) => {
      try {
        await run('readwrite', (s) => [s.put(value, key)]);
        await fallback.remove(key);
      } catch {
        await fallback.set(key, value);
      }
    },
    remove: async (key) => {
      await fallback.remove(key);
      try {
        await run('readwrite', (s) => [s.delete(key) as IDBRequest<unknown>]);
      } catch {
        // It was never stored.
      }
    },
  };
}
