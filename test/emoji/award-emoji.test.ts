import { beforeAll, describe, expect, it } from 'vitest';
import { Receiver } from '../hooks/receiver.ts';
import { insertMergeRequest } from '../merge-requests/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = useApp();
const admin = () => app().as(app().root);
let receiver: Receiver;
beforeAll(async () => {
  await admin().put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  receiver = await Receiver.start();
  return () => receiver[Symbol.asyncDispose]();
});

const makeIssue = async (visibility = 'public', attributes: Record<string, unknown> = {}) => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility }, owner);
  const issue = await app()
    .as(owner)
    .post(`/projects/${project.id}/issues`, { title: 'Nice', ...attributes });
  expect(issue.status).toBe(201);
  const path = `/projects/${project.id}/issues/${issue.body.iid}`;
  return { owner, project, issue: issue.body, path, awards: `${path}/award_emoji` };
};

const makeMergeRequest = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'public' }, owner);
  const row = await insertMergeRequest(app().hub.services.db, { project_id: project.id, author_id: owner.id });
  return { owner, project, row, awards: `/projects/${project.id}/merge_requests/${row.iid}/award_emoji` };
};

const eventsOf = (id: number) =>
  app()
    .hub.services.db.selectFrom('events')
    .select(['kind', 'min_access_level', 'payload'])
    .where('subject_type', '=', 'AwardEmoji')
    .where('subject_id', '=', id)
    .orderBy('id')
    .execute();

describe('award emoji', () => {
  it('are awarded to an issue, shown and removed', async () => {
    const { owner, issue, path, awards } = await makeIssue();
    const fan = await app().make.user();
    const given = await app().as(fan).post(awards, { name: 'tada' });
    expect(given.status).toBe(201);
    expect(given.body).toEqual({
      id: expect.any(Number),
      name: 'tada',
      user: expect.objectContaining({ id: fan.id, username: fan.username }),
      created_at: expect.stringMatching(/Z$/),
      updated_at: expect.stringMatching(/Z$/),
      awardable_id: issue.id,
      awardable_type: 'Issue',
      url: null,
    });
    expect((await app().as(owner).post(awards, { name: '+1' })).body.name).toBe('thumbsup');
    expect((await app().as(fan).post(`${awards}?name=%3Athumbsup%3A`)).body.name).toBe('thumbsup');
    expect((await app().as(fan).post(awards, { name: 'thumbsdown' })).status).toBe(201);
    const listed = await app().anonymous.get(awards);
    expect(listed.body.map(({ name }: { name: string }) => name)).toEqual([
      'tada',
      'thumbsup',
      'thumbsup',
      'thumbsdown',
    ]);
    expect((await app().anonymous.get(`${awards}/${given.body.id}`)).body).toEqual(given.body);
    expect((await app().anonymous.get(path)).body).toMatchObject({ upvotes: 2, downvotes: 1 });
    expect((await app().as(fan).delete(`${awards}/${given.body.id}`)).status).toBe(204);
    expect((await app().as(fan).get(`${awards}/${given.body.id}`)).status).toBe(404);
    expect((await eventsOf(given.body.id)).map(({ kind }) => kind)).toEqual([
      'award_emoji.created',
      'award_emoji.removed',
    ]);
  });

  it('are awarded to merge requests and comments in the same way', async () => {
    const { awards, row } = await makeMergeRequest();
    const given = await admin().post(awards, { name: 'rocket' });
    expect(given.body).toMatchObject({ name: 'rocket', awardable_type: 'MergeRequest', awardable_id: row.id });
    const { path, owner } = await makeIssue();
    const note = (await app().as(owner).post(`${path}/notes`, { body: 'Well' })).body;
    const onNote = `${path}/notes/${note.id}/award_emoji`;
    const onComment = await admin().post(onNote, { name: 'eyes' });
    expect(onComment.body).toMatchObject({ name: 'eyes', awardable_type: 'Note', awardable_id: note.id });
    expect((await app().anonymous.get(onNote)).body).toHaveLength(1);
    expect((await app().anonymous.get(`${onNote}/${onComment.body.id}`)).body.id).toBe(onComment.body.id);
    expect((await app().anonymous.get(`${path}/award_emoji/${onComment.body.id}`)).status).toBe(404);
    expect((await admin().delete(`${onNote}/${onComment.body.id}`)).status).toBe(204);
    expect((await app().anonymous.get(onNote)).body).toEqual([]);
  });

  it('count once per user, even after twenty concurrent requests', async () => {
    const { awards } = await makeIssue();
    const fan = await app().make.user();
    const answers = await Promise.all(Array.from({ length: 20 }, () => app().as(fan).post(awards, { name: 'heart' })));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 404)).toHaveLength(19);
    expect((await app().anonymous.get(awards)).body).toHaveLength(1);
    const again = await app().as(fan).post(awards, { name: 'heart' });
    expect(again.body).toEqual({ message: '404 Award Emoji Name has already been taken Not Found' });
    const { id } = (await app().anonymous.get(awards.replace('/award_emoji', ''))).body;
    const mutation = `mutation { awardEmojiAdd(input: { awardableId: "gid://gitlab/Issue/${id}", name: "heart" }) {
      awardEmoji { name } errors } }`;
    expect((await app().as(fan).graphql(mutation)).data).toEqual({
      awardEmojiAdd: { awardEmoji: null, errors: ['Name has already been taken'] },
    });
  });

  it('are refused if the name is invalid', async () => {
    const { awards, owner } = await makeIssue();
    for (const name of ['', 'Tada!', 'a b', '<b>', 'x'.repeat(101), '::', 'é']) {
      expect((await app().as(owner).post(awards, { name })).status).toBe(400);
    }
    expect((await app().as(owner).post(awards, {})).status).toBe(400);
    expect(
      (
        await app()
          .as(owner)
          .post(awards, { name: ['tada'] })
      ).status,
    ).toBe(400);
    expect((await app().anonymous.get(awards)).body).toEqual([]);
  });

  it('are removed only by their user or an administrator', async () => {
    const { awards, owner } = await makeIssue();
    const fan = await app().make.user();
    const { id } = (await app().as(fan).post(awards, { name: 'tada' })).body;
    expect((await app().as(owner).delete(`${awards}/${id}`)).status).toBe(403);
    expect((await app().anonymous.delete(`${awards}/${id}`)).status).toBe(401);
    const other = await makeIssue();
    expect((await app().as(fan).delete(`${other.awards}/${id}`)).status).toBe(404);
    expect((await app().anonymous.get(awards)).body).toHaveLength(1);
    expect((await admin().delete(`${awards}/${id}`)).status).toBe(204);
  });

  it('are hidden with the record that they were awarded to', async () => {
    const stranger = await app().make.user();
    for (const made of [await makeIssue('private'), await makeIssue('public', { confidential: true })]) {
      const { id } = (await app().as(made.owner).post(made.awards, { name: 'tada' })).body;
      for (const client of [app().as(stranger), app().anonymous]) {
        expect((await client.get(made.awards)).status).toBe(404);
        expect((await client.get(`${made.awards}/${id}`)).status).toBe(404);
        expect([401, 404]).toContain((await client.post(made.awards, { name: 'eyes' })).status);
        expect([401, 404]).toContain((await client.delete(`${made.awards}/${id}`)).status);
      }
    }
    const { awards } = await makeIssue();
    expect((await app().anonymous.post(awards, { name: 'eyes' })).status).toBe(401);
    expect((await app().as(stranger, ['read_api']).post(awards, { name: 'eyes' })).status).toBe(403);
  });

  it('are for members only if the discussion is locked, and for nobody in an archived project', async () => {
    const { awards, owner, path, project } = await makeIssue();
    const stranger = await app().make.user();
    await app().as(owner).put(path, { discussion_locked: true });
    expect((await app().as(stranger).post(awards, { name: 'eyes' })).status).toBe(403);
    expect((await app().as(owner).post(awards, { name: 'eyes' })).status).toBe(201);
    await app().as(owner).post(`/projects/${project.id}/archive`);
    expect((await app().as(owner).post(awards, { name: 'tada' })).status).toBe(403);
  });

  it('filter issues and merge requests by the reactions of the caller', async () => {
    const { project, issue, awards, owner } = await makeIssue();
    const other = (await app().as(owner).post(`/projects/${project.id}/issues`, { title: 'Other' })).body;
    await app().as(owner).post(awards, { name: 'heart' });
    const iids = async (query: string) =>
      (await app().as(owner).get(`/projects/${project.id}/issues?${query}`)).body.map(
        ({ iid }: { iid: number }) => iid,
      );
    expect(await iids('my_reaction_emoji=heart')).toEqual([issue.iid]);
    expect(await iids('my_reaction_emoji=Any')).toEqual([issue.iid]);
    expect(await iids('my_reaction_emoji=none')).toEqual([other.iid]);
    expect(await iids('not[my_reaction_emoji]=heart')).toEqual([other.iid]);
    const merge = await makeMergeRequest();
    await app().as(merge.owner).post(merge.awards, { name: 'heart' });
    const found = await app()
      .as(merge.owner)
      .get(`/projects/${merge.project.id}/merge_requests?my_reaction_emoji=heart`);
    expect(found.body).toHaveLength(1);
  });
});

describe('hooks with emoji events', () => {
  const hooked = async (owner: TestUser, projectId: number, name: string) => {
    const made = await app()
      .as(owner)
      .post(`/projects/${projectId}/hooks`, { url: `${receiver.url}/${name}`, emoji_events: true, push_events: false });
    expect(made.status).toBe(201);
    return () => receiver.received.filter(({ path }) => path.endsWith(`/${name}`));
  };

  it('receive each award with the record that it was awarded to', async () => {
    const { owner, project, issue, awards, path } = await makeIssue();
    const received = await hooked(owner, project.id, 'heard');
    const fan = await app().make.user();
    const award = (await app().as(fan).post(awards, { name: 'tada' })).body;
    await app().as(fan).delete(`${awards}/${award.id}`);
    const note = (await app().as(owner).post(`${path}/notes`, { body: 'Well' })).body;
    await app().as(fan).post(`${path}/notes/${note.id}/award_emoji`, { name: 'eyes' });
    await app().settle();
    await until('three deliveries', () => received().length === 3);
    const [first, second, third] = received();
    expect(first?.headers['x-gitlab-event']).toBe('Emoji Hook');
    expect(first?.body).toMatchObject({
      object_kind: 'emoji',
      event_type: 'award',
      user: { id: fan.id, username: fan.username },
      project_id: project.id,
      project: { id: project.id },
      object_attributes: {
        id: award.id,
        name: 'tada',
        user_id: fan.id,
        awardable_type: 'Issue',
        awardable_id: issue.id,
        action: 'award',
        awarded_on_url: expect.stringContaining(`/-/issues/${issue.iid}`),
        created_at: expect.stringMatching(/ UTC$/),
        updated_at: expect.stringMatching(/ UTC$/),
      },
      issue: { id: issue.id, title: 'Nice' },
    });
    expect(second?.body).toMatchObject({ event_type: 'revoke', object_attributes: { id: award.id, action: 'revoke' } });
    expect(third?.body).toMatchObject({
      object_attributes: {
        awardable_type: 'Note',
        awardable_id: note.id,
        awarded_on_url: expect.stringContaining(`#note_${note.id}`),
      },
      note: { id: note.id, note: 'Well' },
      issue: { id: issue.id },
    });
  });

  it('receive nothing about confidential issues', async () => {
    const { owner, project, awards } = await makeIssue('public', { confidential: true });
    const received = await hooked(owner, project.id, 'silent');
    const { id } = (await app().as(owner).post(awards, { name: 'tada' })).body;
    await app().settle();
    expect(received()).toEqual([]);
    const [event] = await eventsOf(id);
    expect(event?.min_access_level).toBeGreaterThan(0);
  });
});

describe('award emoji over GraphQL', () => {
  it('are added, toggled, removed and listed', async () => {
    const { project, issue, owner } = await makeIssue();
    const id = `gid://gitlab/Issue/${issue.id}`;
    const client = app().as(owner);
    const run = (name: string, emoji: string, by = client) =>
      by.graphql(
        `mutation ($id: AwardableID!, $name: String!) { ${name}(input: { awardableId: $id, name: $name }) {
          awardEmoji { name user { username } } ${name === 'awardEmojiToggle' ? 'toggledOn' : ''} errors } }`,
        { id, name: emoji },
      );
    const added = await run('awardEmojiAdd', 'tada');
    expect(added.data.awardEmojiAdd).toEqual({
      awardEmoji: { name: 'tada', user: { username: owner.username } },
      errors: [],
    });
    expect((await run('awardEmojiToggle', 'eyes')).data.awardEmojiToggle.toggledOn).toBe(true);
    const QUERY = `query ($path: ID!, $iid: String!) { project(fullPath: $path) { issue(iid: $iid) {
      awardEmoji { nodes { name } } } issues(myReactionEmoji: "tada") { nodes { iid } } } }`;
    const variables = { path: project.path_with_namespace, iid: String(issue.iid) };
    const seen = (await client.graphql(QUERY, variables)).data.project;
    expect(seen.issue.awardEmoji.nodes).toEqual([{ name: 'tada' }, { name: 'eyes' }]);
    expect(seen.issues.nodes).toEqual([{ iid: String(issue.iid) }]);
    expect((await run('awardEmojiToggle', 'eyes')).data.awardEmojiToggle.toggledOn).toBe(false);
    expect((await run('awardEmojiRemove', 'tada')).data.awardEmojiRemove.errors).toEqual([]);
    expect((await client.graphql(QUERY, variables)).data.project.issue.awardEmoji.nodes).toEqual([]);
    expect((await run('awardEmojiAdd', 'No!')).data.awardEmojiAdd.errors).toEqual(['Name is not a valid emoji name']);
    expect((await run('awardEmojiAdd', 'tada', app().anonymous)).errors).toBeDefined();
  });
});
