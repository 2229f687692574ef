import type { Route } from '#rest/route.ts';
import type { TestApp, TestUser } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';

/** Private records of one owner: a group with a subgroup, and a project with one record of each kind. */
export interface World {
  readonly owner: TestUser;
  readonly group: TestGroup;
  readonly subgroup: TestGroup;
  readonly project: TestProject;
  /** The values of path parameters by name, for records that exist. */
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
  /** Creates a record and returns its id, or 1 if the feature is missing or disabled. */
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
      type: 'issues',
    },
  };
};

/** Valid values of required parameters, by name. */
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
  process_mode: 'unordered',
  before: '2026-01-01T00:00:00Z',
  version: '1.0.0',
  description: 'fuzz',
  created_after: '2026-01-01T00:00:00Z',
  state: 'success',
  status: 'success',
  refs: ['main', 'main'],
  actions: [{ action: 'create', file_path: 'fuzz', content: 'fuzz' }],
};

/** Returns whether the route requires the parameter. */
const isRequired = (route: Route, name: string): boolean => route.shape[name]?.safeParse(undefined).success === false;

/** Returns the parameters that the route requires besides its path. `user_id` and `group_id` come from `ids`. */
export const requiredOf = (route: Route, ids: Readonly<Record<string, unknown>>): Record<string, unknown> => {
  const sent: Record<string, unknown> = {};
  for (const name of Object.keys(route.shape)) {
    if (route.pathNames.includes(name) || !isRequired(route, name)) continue;
    Object.assign(sent, givenFor(name, ids));
  }
  return sent;
};

/** Returns a valid value for the parameter, by its name. */
export const givenFor = (name: string, ids: Readonly<Record<string, unknown>>): Record<string, unknown> => ({
  [name]: GIVEN[name] ?? ids[name] ?? 1,
});

/** Fills in the path of the route: `top` follows `/projects/` and the like, and `ids` has the rest. */
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

/** Returns the start of the path: `projects`, `groups` or `users`. */
export const collectionOf = (route: Route): string => route.path.split('/')[1] ?? '';
