// Files on their way into a message.

import type { Api } from '../../wire/api';
import { asApiError } from '../../wire/errors';
import type { AttachmentRef, AttachmentRules } from '../../wire/types';
import { MAX_ATTACHMENT } from '../../wire/types';
import { bytes, count } from '../format';

/** A file of the message that is being written. */
export interface FileEntry {
  readonly id: number;
  readonly name: string;
  readonly size: number;
  readonly mediaType: string;
  /** Set when the server has it. */
  readonly ref?: AttachmentRef & { size: number };
  readonly error?: string;
  readonly file?: File;
}

/** The files of a composer. */
export class Uploads {
  files = $state.raw<readonly FileEntry[]>([]);
  #next = 1;
  readonly #going = new Map<number, AbortController>();

  constructor(private readonly api: Api, private readonly changed: () => void) {}

  get busy(): boolean {
    return this.files.some((f) => f.ref === undefined && f.error === undefined);
  }

  /** The files the server has. */
  get refs(): (AttachmentRef & { size: number })[] {
    return this.files.flatMap((f) => (f.ref ? [f.ref] : []));
  }

  /** Takes over files that are there already, such as those of a draft. */
  restore(refs: readonly (AttachmentRef & { size: number })[]): void {
    for (const c of this.#going.values()) c.abort();
    this.#going.clear();
    this.files = refs.map((ref) => ({ id: this.#next++, name: ref.name, size: ref.size, mediaType: ref.mediaType, ref }));
  }

  /** Uploads files, as far as the agent takes them. It returns why others were refused. */
  add(files: readonly File[], rules: AttachmentRules | undefined): string | undefined {
    let refused: string | undefined;
    for (const file of files) {
      const why = refusal(file, rules, this.files.length);
      if (why !== undefined) {
        refused ??= why;
        continue;
      }
      const entry: FileEntry = { id: this.#next++, name: file.name || 'pasted', size: file.size, mediaType: file.type || 'application/octet-stream', file };
      this.files = [...this.files, entry];
      void this.#upload(entry, file);
    }
    return refused;
  }

  remove(id: number): void {
    this.#going.get(id)?.abort();
    this.#going.delete(id);
    this.files = this.files.filter((f) => f.id !== id);
    this.changed();
  }

  retry(id: number): void {
    const entry = this.files.find((f) => f.id === id);
    if (!entry?.file) return;
    const { error: _, ...rest } = entry;
    this.#replace(rest);
    void this.#upload(rest, entry.file);
  }

  async #upload(entry: FileEntry, file: File): Promise<void> {
    const abort = new AbortController();
    this.#going.set(entry.id, abort);
    try {
      const up = await this.api.upload(file, entry.name, abort.signal);
      const ref = { name: up.name || entry.name, mediaType: up.mediaType || entry.mediaType, digest: up.digest, size: up.size };
      this.#replace({ ...entry, ref });
      this.changed();
    } catch (thrown) {
      if (abort.signal.aborted) return;
      this.#replace({ ...entry, error: asApiError(thrown).message });
    } finally {
      this.#going.delete(entry.id);
    }
  }

  #replace(entry: FileEntry): void {
    this.files = this.files.map((f) => (f.id === entry.id ? entry : f));
  }
}

/** Why an agent does not take a file, undefined when it does. */
export function refusal(file: Pick<File, 'name' | 'size' | 'type'>, rules: AttachmentRules | undefined, have: number): string | undefined {
  if (!rules?.mediaTypes?.length) return 'This agent takes no files.';
  if (!rules.mediaTypes.some((t) => (t.endsWith('/') ? file.type.startsWith(t) : file.type === t))) {
    return `${file.name || 'This file'} is ${file.type || 'of an unknown kind'}; this agent takes ${rules.mediaTypes.map((t) => (t.endsWith('/') ? `${t}*` : t)).join(', ')}.`;
  }
  const max = Math.min(rules.maxBytes || MAX_ATTACHMENT, MAX_ATTACHMENT);
  if (file.size > max) return `${file.name || 'This file'} has ${bytes(file.size)}; this agent takes at most ${bytes(max)} for each file.`;
  if (rules.maxCount && have >= rules.maxCount) return `This agent takes at most ${count(rules.maxCount, 'file')} with a message.`;
  return undefined;
}
