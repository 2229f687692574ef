import { sql } from 'kysely';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { DEVELOPER, MAINTAINER } from '#domains/access/model.ts';
import { TEST_TRIGGERS } from '#domains/hooks/model.ts';
import { triggerInfo } from '#domains/hooks/triggers.ts';
import { insertMergeRequest, insertPipeline, insertRelease } from '../merge-requests/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { type Received, Receiver } from './receiver.ts';

const app = useApp();
const root = () => app().as(app().root);
const db = () => app().hub.services.db;
let receiver: Receiver;
beforeAll(async () => {
  await root().put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  receiver = await Receiver.start();
  return () => receiver[Symbol.asyncDispose]();
});
afterEach(() => {
  receiver.received.length = 0;
  receiver.answer = 200;
});

const unlimited = (limit = 0) => root().put('/application/settings', { web_hook_manual_limit: limit });
const newest = (): Received => {
  const last = receiver.received.at(-1);
  if (!last) throw new Error('nothing came');
  return last;
};
const addHook = async (at: string, by: TestUser, attributes: Record<string, unknown> = {}) => {
  const { status, body } = await app()
    .as(by)
    .post(`${at}/hooks`, { url: receiver.url, ...attributes });
  expect([status, body]).toEqual([201, expect.anything()]);
  return body;
};

describe('a test of a hook', () => {
  it('sends a sample for each of the twelve triggers in the real format if there is no data yet', async () => {
    await unlimited();
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const hook = await addHook(`/groups/${group.id}`, owner, { token: 'the-token' });
    for (const trigger of TEST_TRIGGERS) {
      const { status, body } = await app().as(owner).post(`/groups/${group.id}/hooks/${hook.id}/test/${trigger}`);
      expect([trigger, status, body]).toEqual([trigger, 201, { message: '201 Created' }]);
      expect(newest().headers).toMatchObject({
        'x-gitlab-event': triggerInfo(trigger)?.header,
        'x-gitlab-token': 'the-token',
        'x-millrace-attempt': '1',
      });
      expect(JSON.stringify(newest().body)).not.toContain('undefined');
    }
    const bodies = receiver.received.map(({ body }) => body);
    expect(bodies.map(({ object_kind }) => object_kind)).toEqual([
      'push',
      'tag_push',
      'issue',
      'issue',
      'note',
      'merge_request',
      'build',
      'pipeline',
      'wiki_page',
      'release',
      'emoji',
      'access_token',
    ]);
    expect(bodies[0]).toMatchObject({ ref: 'refs/heads/main', user_username: owner.username, total_commits_count: 1 });
    expect(bodies[1]).toMatchObject({ ref: 'refs/tags/v1.0.0', before: '0'.repeat(40) });
    expect(bodies[2]).toMatchObject({ event_type: 'issue', user: { username: owner.username } });
    expect(bodies[3]).toMatchObject({ event_type: 'confidential_issue', object_attributes: { confidential: true } });
    expect(bodies[11]).toMatchObject({ group: { group_id: group.id, full_path: group.full_path } });
    const { body: rows } = await app().as(owner).get(`/groups/${group.id}/hooks/${hook.id}/events`);
    expect(rows).toHaveLength(12);
    expect(rows[0]).toMatchObject({ trigger: 'resource_access_token_hooks', response_status: '200' });
    expect(rows[0].request_headers['X-Gitlab-Token']).toBe('[REDACTED]');
    await unlimited(5);
  });

  it('uses the newest data below the group, and skips disabled features', async () => {
    await unlimited();
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const below = await app().make.group({ parent_id: group.id }, owner);
    const old = await app().make.project({ namespace_id: group.id, initialize_with_readme: true }, owner);
    const project = await app().make.project({ namespace_id: below.id }, owner);
    const off = await app().make.project({ namespace_id: group.id, issues_access_level: 'disabled' }, owner);
    const as = app().as(owner);
    await as.post(`/projects/${old.id}/issues`, { title: 'Older' });
    const { body: issue } = await as.post(`/projects/${project.id}/issues`, { title: 'Newest' });
    await as.post(`/projects/${project.id}/issues`, { title: 'Secret', confidential: true });
    await sql`insert into issues (project_id, iid, title) values (${off.id}, 1, 'Turned off')`.execute(db());
    await as.post(`/projects/${project.id}/issues/${issue.iid}/notes`, { body: 'A word' });
    await db().insertInto('award_emoji').values({ name: 'tada', user_id: owner.id, issue_id: issue.id }).execute();
    const mergeRequest = await insertMergeRequest(db(), {
      project_id: project.id,
      author_id: owner.id,
      title: 'Merge me',
    });
    const times = { created_at: '2026-01-01T00:00:00Z', started_at: '2026-01-01T00:00:10.9Z' };
    const pipeline = await insertPipeline(db(), { project_id: project.id, ...times }, [
      { name: 'compile', stage: 'build' },
      { name: 'unit', stage: 'test' },
    ]);
    const release = await insertRelease(db(), { project_id: project.id, tag: 'v9', name: 'Nine' });
    await as.post(`/projects/${old.id}/repository/tags?tag_name=v1&ref=main`);
    await app().settle();
    const hook = await addHook(`/groups/${group.id}`, owner, { push_events: false });
    const bodyOf = async (trigger: string) => {
      const { status, body } = await as.post(`/groups/${group.id}/hooks/${hook.id}/test/${trigger}`);
      expect([trigger, status, body]).toEqual([trigger, 201, expect.anything()]);
      return newest().body;
    };
    const push = await bodyOf('push_events');
    expect(push).toMatchObject({ project_id: old.id, ref: 'refs/heads/main', project: { id: old.id } });
    expect(push.commits).toHaveLength(1);
    expect(push.checkout_sha).toBe(push.commits[0].id);
    expect(await bodyOf('issues_events')).toMatchObject({
      object_attributes: { id: issue.id, title: 'Newest', action: 'open' },
      project: { id: project.id },
      user: { id: owner.id },
    });
    expect((await bodyOf('confidential_issues_events')).object_attributes.title).toBe('Secret');
    expect(await bodyOf('note_events')).toMatchObject({
      object_attributes: { note: 'A word', noteable_type: 'Issue' },
      issue: { id: issue.id },
    });
    expect(await bodyOf('emoji_events')).toMatchObject({
      event_type: 'award',
      object_attributes: { name: 'tada', awardable_id: issue.id },
    });
    expect(await bodyOf('merge_requests_events')).toMatchObject({
      object_attributes: { id: mergeRequest.id, title: 'Merge me', state_id: 1, target_project_id: project.id },
      user: { id: owner.id },
    });
    expect(await bodyOf('job_events')).toMatchObject({
      build_name: 'unit',
      build_stage: 'test',
      commit: { id: pipeline.id },
    });
    expect(await bodyOf('pipeline_events')).toMatchObject({
      object_attributes: { id: pipeline.id, stages: ['build', 'test'], queued_duration: 10 },
      builds: [{ name: 'compile' }, { name: 'unit' }],
    });
    expect(await bodyOf('releases_events')).toMatchObject({ id: release.id, tag: 'v9', name: 'Nine' });
    await unlimited(5);
  });

  it('reports the answer of the receiver, is not retried, and does not count against the hook', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const hook = await addHook(`/groups/${group.id}`, owner);
    receiver.answer = 503;
    const at = `/groups/${group.id}/hooks/${hook.id}`;
    const { status, body } = await app().as(owner).post(`${at}/test/push_events`);
    expect([status, body]).toEqual([422, { message: 'The receiver answered 503' }]);
    const { body: deliveries } = await app().as(owner).get(`${at}/deliveries`);
    expect(deliveries).toMatchObject([{ state: 'expired', kind: 'webhook.tested', last_response_status: 503 }]);
    const row = await db()
      .selectFrom('webhooks')
      .select('recent_failures')
      .where('id', '=', hook.id)
      .executeTakeFirst();
    expect(row?.recent_failures).toBe(0);
    expect((await app().as(owner).post(`${at}/test/note`)).status).toBe(400);
    expect((await app().as(owner).post(`${at}/test/deployment_events`)).status).toBe(400);
    await app().settle();
    expect(receiver.received).toHaveLength(1);
  });

  it('is sent to a disabled hook, and a success enables the hook and sends its held deliveries', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const hook = await addHook(`/groups/${group.id}`, owner, { subgroup_events: true });
    const at = `/groups/${group.id}/hooks/${hook.id}`;
    await sql`update webhooks set disabled_permanently = true, recent_failures = 40 where id = ${hook.id}`.execute(
      db(),
    );
    await app().make.group({ parent_id: group.id }, owner);
    await app().settle();
    expect(receiver.received).toHaveLength(0);
    receiver.answer = 500;
    expect((await app().as(owner).post(`${at}/test/push_events`)).status).toBe(422);
    expect((await app().as(owner).get(at)).body.alert_status).toBe('disabled');
    receiver.answer = 204;
    expect((await app().as(owner).post(`${at}/test/push_events`)).status).toBe(201);
    expect((await app().as(owner).get(at)).body.alert_status).toBe('executable');
    await app().settle();
    expect(receiver.received.map(({ headers }) => headers['x-gitlab-event'])).toEqual([
      'Push Hook',
      'Push Hook',
      'Subgroup Hook',
    ]);
  });

  it('is answered with an error in silent mode, and sends nothing', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const hook = await addHook(`/groups/${group.id}`, owner);
    await root().put('/application/settings', { silent_mode_enabled: true });
    const { status } = await app().as(owner).post(`/groups/${group.id}/hooks/${hook.id}/test/push_events`);
    await root().put('/application/settings', { silent_mode_enabled: false });
    expect([status, receiver.received.length]).toEqual([422, 0]);
  });

  it('is for Owners, at most five times a minute per group and user, even with concurrent requests', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const hook = await addHook(`/groups/${group.id}`, owner);
    const second = await addHook(`/groups/${group.id}`, owner);
    const [maintainer, outsider] = [await app().make.user(), await app().make.user()];
    await app().make.groupMember(group, maintainer, MAINTAINER);
    const at = (id: number) => `/groups/${group.id}/hooks/${id}/test/push_events`;
    expect((await app().as(maintainer).post(at(hook.id))).status).toBe(403);
    expect((await app().as(outsider).post(at(hook.id))).status).toBe(404);
    expect((await app().anonymous.post(at(hook.id))).status).toBe(401);
    expect(
      (
        await app()
          .as(owner)
          .post(at(second.id + 1_000))
      ).status,
    ).toBe(404);
    expect(receiver.received).toEqual([]);
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        app()
          .as(owner)
          .post(at(n % 2 ? hook.id : second.id)),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(5).fill(201), ...Array(7).fill(429)]);
    expect(receiver.received).toHaveLength(5);
    const elsewhere = await app().make.group({}, owner);
    const other = await addHook(`/groups/${elsewhere.id}`, owner);
    const { status } = await app().as(owner).post(`/groups/${elsewhere.id}/hooks/${other.id}/test/push_events`);
    expect(status).toBe(201);
    expect((await root().post(at(hook.id))).status).toBe(201);
  });

  it('is requested over GraphQL by the same rules', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const hook = await addHook(`/groups/${group.id}`, owner);
    const test = `mutation ($id: WebHookID!) { groupWebhookTest(input: { id: $id, event: PIPELINE_EVENTS }) {
      errors webhook { id alertStatus } delivery { trigger responseStatus } } }`;
    const id = `gid://gitlab/GroupHook/${hook.id}`;
    const { data } = await app().as(owner).graphql(test, { id });
    expect(data.groupWebhookTest).toEqual({
      errors: [],
      webhook: { id, alertStatus: 'EXECUTABLE' },
      delivery: { trigger: 'pipeline_hooks', responseStatus: 200 },
    });
    receiver.answer = 500;
    const failed = await app().as(owner).graphql(test, { id });
    expect(JSON.stringify(failed)).toContain('The receiver answered 500');
    const developer = await app().make.user();
    await app().make.groupMember(group, developer, DEVELOPER);
    const refused = await app().as(developer).graphql(test, { id });
    expect(refused.data.groupWebhookTest).toBeNull();
    expect(receiver.received).toHaveLength(2);
  });
});
