import { describe, expect, test } from 'vitest';
import type { Agent, Chat, Provider } from '../wire/types';
import { agentProblem, effortsOf, executorProblem, isRemembered, MAX_PROJECTS, recall, recentProjects, remember, settle, type Choice, type Remembered } from './choice';

const agent = (id: string, more: Partial<Agent> = {}): Agent => ({
  id, label: id, facets: [], conversation: 'native', attachments: {}, modes: [{ id: 'ask', label: 'Ask' }, { id: 'bypass', label: 'All', bypass: true }], defaultMode: 'ask', ...more,
});
const provider: Provider = { id: 'p', label: 'P', protocol: 'chat', baseUrl: '', hasKey: true, models: [], executors: [], createdAt: 0 };
const choice = (more: Partial<Choice> = {}): Choice => ({ executor: 'local', project: '/p', agent: 'a', provider: '', model: '', effort: '', mode: '', ...more });
const auth = { installed: true, supported: true, signedIn: 'yes' as const };

describe('new chat', () => {
  test('what is gone is replaced by what is usual', () => {
    const known = { agents: [agent('a', { efforts: ['low'] })], providers: [], models: [{ id: 'm' }] };
    expect(settle(choice({ model: 'gone', effort: 'max', mode: 'gone' }), known)).toEqual(choice({ mode: 'ask' }));
    expect(settle(choice({ model: 'm', effort: 'low', mode: 'bypass' }), known)).toEqual(choice({ model: 'm', effort: 'low', mode: 'bypass' }));
  });

  test('an agent that cannot start is not the default', () => {
    const agents = [agent('a', { auth: { ...auth, installed: false } }), agent('b', { auth: { ...auth, signedIn: 'no' } }), agent('c'), agent('d')];
    expect(settle(choice({ agent: '' }), { agents, providers: [], models: undefined }).agent).toBe('c');
    expect(settle(choice({ agent: 'a' }), { agents, providers: [], models: undefined, defaultAgent: 'd' }).agent).toBe('d');
  });

  test('says why an agent cannot start', () => {
    const problem = (a: Partial<Agent>, providers: Provider[] = []): string | undefined => agentProblem(agent('a', a), providers);
    expect(problem({})).toBeUndefined();
    expect(problem({ auth: { ...auth, installed: false } })).toBe('not installed');
    expect(problem({ auth: { ...auth, signedIn: 'no' } })).toBe('not signed in');
    expect(problem({ needsEndpoint: true, protocol: 'other' }, [provider])).toContain('provider');
    expect(problem({ needsEndpoint: true, protocol: 'chat' }, [provider])).toBeUndefined();
  });

  test('an agent with an API gets a provider of its protocol', () => {
    const agents = [agent('a', { needsEndpoint: true, protocol: 'chat' })];
    expect(settle(choice(), { agents, providers: [{ ...provider, id: 'x', protocol: 'other' }, provider], models: undefined }).provider).toBe('p');
  });

  test('a model has efforts of its own, else those of the agent', () => {
    const a = agent('a', { efforts: ['low'] });
    const models = [{ id: 'm', efforts: ['high'] }, { id: 'n', default: true }];
    expect([effortsOf(a, models, 'm'), effortsOf(a, models, ''), effortsOf(a, undefined, '')]).toEqual([['high'], ['low'], ['low']]);
  });

  test('the last choice is remembered for each project; a mode is not carried to another', () => {
    let memory: Remembered | undefined;
    memory = remember(memory, choice({ mode: 'bypass', model: 'm' }));
    memory = remember(memory, choice({ project: '/q', model: 'n' }));
    expect(recall(memory, 'local', '/p')).toMatchObject({ mode: 'bypass', model: 'm' });
    memory = remember(memory, choice({ mode: 'bypass' }));
    expect(recall(memory, 'local', '/new').mode).toBeUndefined();
    expect(recall(memory, 'gpu', '/p').mode).toBeUndefined();
    for (let i = 0; i < 2 * MAX_PROJECTS; i++) memory = remember(memory, choice({ project: `/${i}` }));
    expect(Object.keys(memory.projects)).toHaveLength(MAX_PROJECTS);
    expect([isRemembered(JSON.parse(JSON.stringify(memory))), isRemembered({ projects: { a: 1 } }), isRemembered(null)]).toEqual([true, false, false]);
  });

  test('recent projects are those of the machine, each once', () => {
    const chats = [['local', '/a', 1], ['local', '/b', 3], ['gpu', '/c', 9], ['local', '/a', 5]].map(([executorId, projectPath, lastActivity]) => ({ executorId, projectPath, lastActivity }) as Chat);
    expect(recentProjects(chats, 'local')).toEqual(['/a', '/b']);
  });

  test('a machine that is not ready says why', () => {
    const executor = { id: 'x', label: 'x', availability: 'offline' as const, lastError: 'refused' };
    expect([executorProblem(executor), executorProblem({ ...executor, availability: 'ready' })]).toEqual(['away: refused', undefined]);
  });
});
