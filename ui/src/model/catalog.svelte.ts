import { SvelteMap } from 'svelte/reactivity';
import type { Api } from '../wire/api';
import { asApiError, type ApiError } from '../wire/errors';
import type { Agent, Command, Model, Provider, ProviderRequest } from '../wire/types';

/** Something that is fetched: the old value stays while a new one is on its way. */
export interface Loaded<T> {
  readonly value?: T;
  readonly loading: boolean;
  readonly error?: ApiError;
}

const nothing: Loaded<never> = { loading: false };

/** Agents, models, commands and providers, fetched when somebody needs them. */
export class Catalog {
  readonly #api: Api;
  readonly #agents = new SvelteMap<string, Loaded<Agent[]>>();
  readonly #models = new SvelteMap<string, Loaded<Model[]>>();
  readonly #commands = new SvelteMap<string, Loaded<Command[]>>();
  providers = $state.raw<Loaded<Provider[]>>(nothing);

  constructor(api: Api) {
    this.#api = api;
  }

  /** The agents of an executor; fetch them with loadAgents. */
  agents(executor: string): Loaded<Agent[]> {
    return this.#agents.get(executor) ?? nothing;
  }

  agent(executor: string, id: string): Agent | undefined {
    return this.agents(executor).value?.find((a) => a.id === id);
  }

  models(agent: string, executor: string, project = '', provider = ''): Loaded<Model[]> {
    return this.#models.get(key(agent, executor, project, provider)) ?? nothing;
  }

  commands(agent: string, executor: string, project: string): Loaded<Command[]> {
    return this.#commands.get(key(agent, executor, project)) ?? nothing;
  }

  /** Fetches the agents; without force only when there are none. */
  loadAgents(executor: string, force = false): Promise<void> {
    return load(this.#agents, executor, force, async () => (await this.#api.agents(executor)).agents);
  }

  loadModels(agent: string, executor: string, project = '', provider = '', force = false): Promise<void> {
    const query = { executor, project: project || undefined, provider: provider || undefined };
    return load(this.#models, key(agent, executor, project, provider), force, async () => (await this.#api.models(agent, query)).models);
  }

  loadCommands(agent: string, executor: string, project: string, force = false): Promise<void> {
    return load(this.#commands, key(agent, executor, project), force, async () => (await this.#api.commands(agent, { executor, project })).commands);
  }

  async loadProviders(): Promise<void> {
    const { value } = this.providers;
    this.providers = { ...(value && { value }), loading: true };
    try {
      this.providers = { value: await this.#api.providers(), loading: false };
    } catch (thrown) {
      this.providers = { ...(value && { value }), loading: false, error: asApiError(thrown) };
    }
  }

  async addProvider(request: ProviderRequest): Promise<Provider> {
    const provider = await this.#api.addProvider(request);
    this.#changed((list) => [...list, provider]);
    return provider;
  }

  async updateProvider(id: string, request: ProviderRequest): Promise<void> {
    const provider = await this.#api.updateProvider(id, request);
    this.#changed((list) => list.map((p) => (p.id === id ? provider : p)));
  }

  async removeProvider(id: string): Promise<void> {
    await this.#api.removeProvider(id);
    this.#changed((list) => list.filter((p) => p.id !== id));
  }

  #changed(f: (list: Provider[]) => Provider[]): void {
    this.providers = { value: f(this.providers.value ?? []), loading: false };
    // What a provider offers may be another now.
    this.#models.clear();
  }
}

const key = (...parts: string[]): string => parts.join('\u0000');

async function load<T>(map: SvelteMap<string, Loaded<T>>, at: string, force: boolean, fetch: () => Promise<T>): Promise<void> {
  const before = map.get(at);
  if (before?.loading || (before?.value !== undefined && !force)) return;
  const kept = before?.value === undefined ? {} : { value: before.value };
  map.set(at, { ...kept, loading: true });
  try {
    map.set(at, { value: await fetch(), loading: false });
  } catch (thrown) {
    map.set(at, { ...kept, loading: false, error: asApiError(thrown) });
  }
}
