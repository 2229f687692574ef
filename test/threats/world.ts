import type { Route } from '#rest/route.ts';
import type { TestApp, TestUser } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';

/** A private corner of a hub: one owner, a group with a subgroup, a project with something of each kind. */
export interface World {
  readonly owner: TestUser;
  readonly group: TestGroup;
  readonly subgroup: TestGroup;
  readonly project: TestProject;
  /** What stands in a path for the parameter of this name, where it exists. */
  readonly ids: Readonly<Record<string, string | number>>;
}

export const privateWorld = async (app: TestApp): Promise<World> => {
  const owner = await app.make.user();
  const client = app.as(owner);
  const group = await app.make.group({ visibility: 'private' }, owner);
  const subgroup = await app.make.group({ visibility: 'private', parent_id: group.id }, owner);
  const project = await app.make.project(
    { namespace_id: group.id, visibility: 'private', initialize_with_readme: true },
    owner,
  );
  const at = `/projects/${project.id}`;
  /** The part may not be there yet, or be switched off: then nothing of it is to be found. */
  const idOf = async (path: string, body: Record<string, unknown>, key = 'id'): Promise<string | number> => {
    const answer = await client.post(path, body);
    return answer.status === 201 ? answer.body[key] : 1;
  };
  return {
    owner,
    group,
    subgroup,
    project,
    ids: {
      name: await idOf(`${at}/labels`, { name: 'bug', color: '#ff0000' }, 'name'),
      milestone_id: await idOf(`${at}/milestones`, { title: 'one' }),
      group_milestone: await idOf(`/groups/${group.id}/milestones`, { title: 'one' }),
      group_label: await idOf(`/groups/${group.id}/labels`, { name: 'bug', color: '#ff0000' }, 'name'),
      issue_iid: await idOf(`${at}/issues`, { title: 'one' }, 'iid'),
      note_id: await idOf(`${at}/issues/1/notes`, { body: 'one' }),
      hook_id: await idOf(`/groups/${group.id}/hooks`, { url: 'http://127.0.0.1:9/' }),
      token_id: await idOf('/user/personal_access_tokens', { name: 'k', scopes: ['k8s_proxy'] }),
      merge_request_iid: 1,
      branch: 'main',
      user_id: owner.id,
      group_id: subgroup.id,
      sha: 'main',
      tag_name: 'v1',
      delivery_id: '00000000-0000-4000-8000-000000000000',
      trigger: 'push_events',
    },
  };
};

/** Values that every declaration of this name takes, for parameters that must be there. */
const GIVEN: Readonly<Record<string, unknown>> = {
  name: 'fuzz',
  path: 'fuzz',
  title: 'fuzz',
  body: 'fuzz',
  username: 'fuzz',
  email: 'fuzz@example.com',
  password: 'correct-horse-battery',
  color: '#00ff00',
  branch: 'fuzz',
  ref: 'main',
  access_level: 30,
  group_access: 30,
  scopes: ['k8s_proxy'],
  url: 'http://127.0.0.1:9/',
  new_name: 'fuzz',
  key: 'fuzz',
  value: 'fuzz',
  tag_name: 'v2',
  version: '1.0.0',
  description: 'fuzz',
  created_after: '2026-01-01T00:00:00Z',
  state: 'success',
  refs: ['main', 'main'],
  actions: [{ action: 'create', file_path: 'fuzz', content: 'fuzz' }],
};

/** Whether a request is refused without the parameter. */
const isRequired = (route: Route, name: string): boolean => route.shape[name]?.safeParse(undefined).success === false;

/** What the route needs beside its path. `user_id` and `group_id` are the given ones. */
export const requiredOf = (route: Route, ids: Readonly<Record<string, unknown>>): Record<string, unknown> => {
  const sent: Record<string, unknown> = {};
  for (const name of Object.keys(route.shape)) {
    if (route.pathNames.includes(name) || !isRequired(route, name)) continue;
    Object.assign(sent, givenFor(name, ids));
  }
  return sent;
};

/** A value for the parameter that its declaration takes. */
export const givenFor = (name: string, ids: Readonly<Record<string, unknown>>): Record<string, unknown> => ({
  [name]: GIVEN[name] ?? ids[name] ?? 1,
});

/** The route's path with its parameters filled in: `top` for what comes after `/projects/` and the like, the rest by `ids`. */
export const fillPath = (
  route: Route,
  top: string | number,
  ids: Readonly<Record<string, string | number>>,
  override: Readonly<Record<string, string | number>> = {},
): string =>
  route.url.replace(/[:*]([A-Za-z_]+)/g, (_, name: string) => {
    const value = override[name] ?? (name === route.pathNames[0] ? top : valueFor(route, name, ids));
    return encodeURIComponent(String(value));
  });

const valueFor = (route: Route, name: string, ids: Readonly<Record<string, string | number>>): string | number => {
  if (route.path.startsWith('/groups/') && name === 'milestone_id') return ids.group_milestone ?? 1;
  if (name === 'name' && route.path.includes('protected_branches')) return 'main';
  return ids[name] ?? 1;
};

/** How the path begins: `projects`, `groups`, `users`. */
export const collectionOf = (route: Route): string => route.path.split('/')[1] ?? '';
