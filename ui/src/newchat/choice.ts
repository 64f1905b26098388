import type { Agent, Chat, Executor, Model, Provider } from '../wire/types';
import { isObject } from '../model/storage';

/** What a new chat is started with. */
export interface Choice {
  executor: string;
  project: string;
  agent: string;
  provider: string;
  model: string;
  effort: string;
  mode: string;
}

/** The last choices: the newest of all, and one for each project. */
export interface Remembered {
  readonly last?: Choice;
  readonly projects: Readonly<Record<string, Choice>>;
}

/** How many projects are remembered. */
export const MAX_PROJECTS = 50;

export function isRemembered(value: unknown): value is Remembered {
  return isObject(value) && isObject(value['projects']) && Object.values(value['projects']).every(isChoice) && (value['last'] === undefined || isChoice(value['last']));
}

function isChoice(value: unknown): value is Choice {
  return isObject(value) && ['executor', 'project', 'agent', 'provider', 'model', 'effort', 'mode'].every((k) => typeof value[k] === 'string');
}

const place = (executor: string, project: string): string => `${executor} ${project}`;

/** Remembers a choice; the oldest projects are forgotten. */
export function remember(before: Remembered | undefined, choice: Choice): Remembered {
  const { [place(choice.executor, choice.project)]: _, ...rest } = before?.projects ?? {};
  const kept = Object.entries(rest).slice(-(MAX_PROJECTS - 1));
  return { last: choice, projects: { ...Object.fromEntries(kept), [place(choice.executor, choice.project)]: choice } };
}

/** The choice to begin with in a project: the one made there last, else the newest one. A mode that asks nothing is not carried to another project. */
export function recall(memory: Remembered | undefined, executor: string, project: string): Partial<Choice> {
  const here = memory?.projects[place(executor, project)];
  if (here) return here;
  const { mode: _, ...last } = memory?.last ?? {};
  return last;
}

/** The projects of an executor that have chats, the newest first. */
export function recentProjects(chats: Iterable<Chat>, executor: string): string[] {
  const newest = [...chats].filter((c) => c.executorId === executor && c.projectPath).sort((a, b) => b.lastActivity - a.lastActivity);
  return [...new Set(newest.map((c) => c.projectPath))].slice(0, 12);
}

/** Why an agent cannot be started; undefined when it can. */
export function agentProblem(agent: Agent, providers: readonly Provider[]): string | undefined {
  if (agent.auth && !agent.auth.installed) return 'not installed';
  if (agent.auth && !agent.auth.supported) return 'this version is not supported';
  if (agent.auth?.signedIn === 'no') return 'not signed in';
  if (agent.needsEndpoint && !providers.some((p) => !agent.protocol || p.protocol === agent.protocol)) return 'no API provider for it';
  if (agent.problem) return agent.problem;
  return undefined;
}

/** Keeps what still exists of a choice and fills the rest with what is usual. */
export function settle(choice: Choice, known: { agents: readonly Agent[]; providers: readonly Provider[]; models: readonly Model[] | undefined; defaultAgent?: string | undefined }): Choice {
  const usable = known.agents.filter((a) => agentProblem(a, known.providers) === undefined);
  const agent =
    usable.find((a) => a.id === choice.agent) ?? usable.find((a) => a.id === known.defaultAgent) ?? usable[0] ?? known.agents.find((a) => a.id === choice.agent) ?? known.agents[0];
  if (!agent) return choice;
  const changed = agent.id !== choice.agent;
  const providers = known.providers.filter((p) => !agent.protocol || p.protocol === agent.protocol);
  const provider = agent.needsEndpoint ? (providers.find((p) => p.id === choice.provider)?.id ?? providers[0]?.id ?? '') : '';
  // An empty model is the agent's own choice; one that is gone becomes that.
  const model = changed || (known.models && !known.models.some((m) => m.id === choice.model)) ? '' : choice.model;
  const efforts = effortsOf(agent, known.models, model);
  return {
    ...choice,
    agent: agent.id,
    provider,
    model,
    effort: efforts.includes(choice.effort) ? choice.effort : '',
    mode: agent.modes?.some((m) => m.id === choice.mode) ? choice.mode : (agent.defaultMode ?? agent.modes?.[0]?.id ?? ''),
  };
}

/** The efforts of a model, or of the agent for a model that has none of its own. */
export function effortsOf(agent: Agent | undefined, models: readonly Model[] | undefined, model: string): readonly string[] {
  const chosen = models?.find((m) => (model === '' ? m.default : m.id === model));
  return chosen?.efforts ?? agent?.efforts ?? [];
}

/** Why nothing can be started on an executor; undefined when it can. */
export function executorProblem(executor: Executor): string | undefined {
  switch (executor.availability) {
    case 'ready':
      return undefined;
    case 'reconnecting':
      return 'connecting';
    case 'offline':
      return executor.lastError ? `away: ${executor.lastError}` : 'away';
    case 'disposed':
      return 'removed';
  }
}
