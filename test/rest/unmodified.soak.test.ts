import { beforeAll, expect, it } from 'vitest';
import { routes } from '#app/routes.ts';
import { useApp } from '../support/app.ts';
import type { Answer, Client } from '../support/client.ts';
import { pushCommits, README } from '../support/commits.ts';

// A resource that has changed since the time of `If-Unmodified-Since` is not deleted (reference: conventions §1).

const app = useApp({ sweep: true });
let root: Client;
let group: { readonly id: number };
let project: { readonly id: number };
let sha = '';

beforeAll(async () => {
  root = app().as(app().root);
  group = await app().make.group({}, app().root);
  project = await app().make.project({ namespace_id: group.id }, app().root);
  const [, head] = await pushCommits(app(), project, app().root, [
    { ...README, files: { ...README.files, '.gitlab-ci.yml': 'test: { script: "true" }' } },
    { branch: 'feature', from: 'main', files: { added: 'yes' } },
  ]);
  sha = head ?? '';
  await app().settle();
  await made(root.post(at('merge_requests'), { title: 'One', source_branch: 'feature', target_branch: 'main' }));
  await made(root.post(at('issues'), { title: 'One' }));
});

const at = (path: string) => `/projects/${project.id}/${path}`;
const below = (path: string) => `/groups/${group.id}/${path}`;

const made = async (answer: Promise<Answer>): Promise<Answer['body']> => {
  const { status, body } = await answer;
  expect([status, body]).toEqual([201, expect.anything()]);
  return body;
};

/** Creates a record and returns its path. */
const create = async (path: string, input: Record<string, unknown>, key = 'id'): Promise<string> =>
  `${path}/${(await made(root.post(path, input)))[key]}`;

let counter = 0;
const unique = (word: string) => `${word}${++counter}`;

const URL = 'https://receiver.example/hook';
const rule = () => ({ name: unique('Rule'), approvals_required: 1 });
const hook = () => ({ url: URL });
const variable = () => ({ key: unique('KEY'), value: 'one' });
const label = () => ({ name: unique('label'), color: '#ff0000' });

const addMember = async (path: string): Promise<string> => {
  const { id: user_id } = await app().make.user();
  await made(root.post(path, { user_id, access_level: 30 }));
  return `${path}/${user_id}`;
};

/** The first comment of a new discussion. */
const discuss = async (path: string): Promise<string> => {
  const { id, notes } = await made(root.post(path, { body: 'One' }));
  return `${path}/${id}/notes/${notes[0].id}`;
};

const awardNote = async (path: string): Promise<string> =>
  create(`${await create(`${path}/notes`, { body: 'One' })}/award_emoji`, { name: 'eyes' });

const pushRule = async (path: string): Promise<string> => {
  await made(root.post(path, {}));
  return path;
};

const deployment = () => ({ environment: 'production', sha, ref: 'feature', tag: false, status: 'success' });

/** Creates a record to delete and returns its path, for each route with the precondition. */
const DELETIONS: Readonly<Record<string, () => Promise<string>>> = {
  '/admin/ci/variables/:key': () => create('/admin/ci/variables', variable(), 'key'),
  '/applications/:id': () => create('/applications', { name: 'One', redirect_uri: URL, scopes: 'api' }),
  '/groups/:id': async () => `/groups/${(await app().make.group({}, app().root)).id}`,
  '/groups/:id/approval_rules/:approval_rule_id': () => create(below('approval_rules'), rule()),
  '/groups/:id/hooks/:hook_id': () => create(below('hooks'), hook()),
  '/groups/:id/labels': async () => `${below('labels')}?name=${(await made(root.post(below('labels'), label()))).name}`,
  '/groups/:id/labels/:name': () => create(below('labels'), label(), 'name'),
  '/groups/:id/members/:user_id': () => addMember(below('members')),
  '/groups/:id/milestones/:milestone_id': () => create(below('milestones'), { title: unique('m') }),
  '/groups/:id/push_rule': () => pushRule(below('push_rule')),
  '/groups/:id/service_accounts/:user_id': () => create(below('service_accounts'), {}),
  '/groups/:id/variables/:key': () => create(below('variables'), variable(), 'key'),
  '/hooks/:hook_id': () => create('/hooks', hook()),
  '/projects/:id': async () => `/projects/${(await app().make.project({}, app().root)).id}`,
  '/projects/:id/approval_rules/:approval_rule_id': () => create(at('approval_rules'), rule()),
  '/projects/:id/deployments/:deployment_id': async () => {
    const path = await create(at('deployments'), deployment());
    await create(at('deployments'), deployment());
    return path;
  },
  '/projects/:id/environments/:environment_id': async () => {
    const path = await create(at('environments'), { name: unique('env') });
    expect((await root.post(`${path}/stop`)).status).toBe(200);
    return path;
  },
  '/projects/:id/hooks/:hook_id': () => create(at('hooks'), hook()),
  '/projects/:id/issues/:issue_iid': () => create(at('issues'), { title: 'Two' }, 'iid'),
  '/projects/:id/issues/:noteable_iid/award_emoji/:award_id': () =>
    create(at('issues/1/award_emoji'), { name: 'eyes' }),
  '/projects/:id/issues/:noteable_iid/discussions/:discussion_id/notes/:note_id': () =>
    discuss(at('issues/1/discussions')),
  '/projects/:id/issues/:noteable_iid/notes/:note_id': () => create(at('issues/1/notes'), { body: 'One' }),
  '/projects/:id/issues/:noteable_iid/notes/:note_id/award_emoji/:award_id': () => awardNote(at('issues/1')),
  '/projects/:id/labels': async () => `${at('labels')}?name=${(await made(root.post(at('labels'), label()))).name}`,
  '/projects/:id/labels/:name': () => create(at('labels'), label(), 'name'),
  '/projects/:id/members/:user_id': () => addMember(at('members')),
  '/projects/:id/merge_requests/:merge_request_iid': async () => {
    const branch = unique('branch');
    await pushCommits(app(), project, app().root, [{ branch, from: 'main', files: { [branch]: 'yes' } }]);
    return create(at('merge_requests'), { title: 'Two', source_branch: branch, target_branch: 'main' }, 'iid');
  },
  '/projects/:id/merge_requests/:merge_request_iid/approval_rules/:approval_rule_id': () =>
    create(at('merge_requests/1/approval_rules'), rule()),
  '/projects/:id/merge_requests/:noteable_iid/award_emoji/:award_id': () =>
    create(at('merge_requests/1/award_emoji'), { name: 'eyes' }),
  '/projects/:id/merge_requests/:noteable_iid/discussions/:discussion_id/notes/:note_id': () =>
    discuss(at('merge_requests/1/discussions')),
  '/projects/:id/merge_requests/:noteable_iid/draft_notes/:draft_note_id': () =>
    create(at('merge_requests/1/draft_notes'), { note: 'One' }),
  '/projects/:id/merge_requests/:noteable_iid/notes/:note_id': () =>
    create(at('merge_requests/1/notes'), { body: 'One' }),
  '/projects/:id/merge_requests/:noteable_iid/notes/:note_id/award_emoji/:award_id': () =>
    awardNote(at('merge_requests/1')),
  '/projects/:id/milestones/:milestone_id': () => create(at('milestones'), { title: unique('m') }),
  '/projects/:id/pipeline_schedules/:pipeline_schedule_id': () =>
    create(at('pipeline_schedules'), { description: 'One', ref: 'main', cron: '0 1 * * *' }),
  '/projects/:id/pipelines/:pipeline_id': async () =>
    at(`pipelines/${(await made(root.post(at('pipeline'), { ref: 'main' }))).id}`),
  '/projects/:id/protected_branches/:name': () => create(at('protected_branches'), { name: unique('stable') }, 'name'),
  '/projects/:id/push_rule': () => pushRule(at('push_rule')),
  '/projects/:id/releases/:tag_name': () => create(at('releases'), { tag_name: unique('v'), ref: 'main' }, 'tag_name'),
  '/projects/:id/repository/commits/:sha/discussions/:discussion_id/notes/:note_id': () =>
    discuss(at(`repository/commits/${sha}/discussions`)),
  '/projects/:id/triggers/:trigger_id': () => create(at('triggers'), { description: 'One' }),
  '/projects/:id/variables/:key': () => create(at('variables'), variable(), 'key'),
  '/runners': async () =>
    `/runners?token=${(await made(root.post('/user/runners', { runner_type: 'instance_type' }))).token}`,
  '/runners/:id': async () =>
    `/runners/${(await made(root.post('/user/runners', { runner_type: 'instance_type' }))).id}`,
  '/topics/:id': () => create('/topics', { name: unique('topic'), title: 'One' }),
  '/users/:id': async () => `/users/${(await app().make.user()).id}`,
};

const remove = (path: string, since: string) =>
  root.request('DELETE', path, undefined, { 'if-unmodified-since': since });

it.each(Object.entries(DELETIONS))('DELETE %s keeps what has changed since then', async (_, make) => {
  const path = await make();
  await app().settle();
  expect(await remove(path, new Date(Date.now() - 3_600_000).toUTCString())).toMatchObject({
    status: 412,
    body: { message: '412 Precondition Failed' },
  });
  // The second in which it has changed counts as unchanged.
  expect((await remove(path, new Date().toUTCString())).status).toBeOneOf([200, 202, 204]);
});

it('covers every route that declares the precondition', () => {
  const declared = routes.filter((route) => route.method === 'DELETE' && route.refusals[412] !== undefined);
  expect(declared.map(({ path }) => path).toSorted()).toEqual(Object.keys(DELETIONS).toSorted());
});

it('deletes if the header is no date', async () => {
  expect((await remove(await create(at('issues'), { title: 'Two' }, 'iid'), 'the day before')).status).toBe(204);
});
