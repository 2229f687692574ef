import { createClient } from 'graphql-sse';
import { afterEach, describe, expect, it } from 'vitest';
import { encodeCursor } from '#platform/cursor.ts';
import { makeScene } from '../planning/scene.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { mutate } from '../support/graphql.ts';
import { until } from '../support/until.ts';

const app = useApp();
const START = encodeCursor([0]);
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

interface Update {
  readonly cursor: string;
  readonly at: string;
  readonly event: string;
  readonly mergeRequest: Record<string, unknown>;
}

const FIELDS = `cursor at event
  mergeRequest { iid state detailedMergeStatus diffHeadSha reviewers { nodes { username } } title }`;

/** Follows a subscription from the first event on. */
const follow = async (user: TestUser, field: string, args: string, after = START) => {
  const client = createClient({
    url: `${app().url}/api/graphql`,
    headers: await app().as(user).headers(),
    retryAttempts: 0,
  });
  const stream = { updates: [] as Update[], failures: [] as unknown[], isOver: false };
  client.subscribe<Record<string, Update>>(
    { query: `subscription { ${field}(${args}, after: "${after}") { ${FIELDS} } }` },
    {
      next: ({ data, errors }) => {
        const update = data?.[field];
        if (update) stream.updates.push(update);
        if (errors) stream.failures.push(errors);
      },
      error: (error) => {
        stream.failures.push(error);
        stream.isOver = true;
      },
      complete: () => {
        stream.isOver = true;
      },
    },
  );
  closing.push(() => client.dispose());
  return stream;
};

const commit = async (client: Client, path: string, branch: string, file: string, start_branch?: string) => {
  const { status, body } = await client.post(`${path}/repository/commits`, {
    branch,
    ...(start_branch ? { start_branch } : {}),
    commit_message: `Add ${file}`,
    actions: [{ action: 'create', file_path: file, content: 'text\n' }],
  });
  expect(status).toBe(201);
  return body.id as string;
};

const setUp = async () => {
  const scene = await makeScene(app(), { initialize_with_readme: true });
  const { owner, path, project } = scene;
  const head = await commit(owner, path, 'feature', 'a.txt', 'main');
  const { body } = await owner.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Add a file',
  });
  await app().settle();
  const named = { projectPath: project.path_with_namespace, iid: '1' };
  return {
    ...scene,
    head,
    named,
    id: `issuableId: "gid://gitlab/MergeRequest/${body.id}"`,
    at: `${path}/merge_requests/1`,
  };
};

const kindsOf = ({ updates }: { readonly updates: readonly Update[] }) => updates.map(({ event }) => event);

describe('subscriptions of one merge request', () => {
  it('follow whether it can be merged', async () => {
    const { owner, at, id, people, named } = await setUp();
    const stream = await follow(people.owner, 'mergeRequestMergeStatusUpdated', id);
    await until('the check is told', () => kindsOf(stream).includes('merge_request.checked'));
    expect(stream.updates.at(-1)).toMatchObject({ mergeRequest: { iid: '1', detailedMergeStatus: 'MERGEABLE' } });
    const before = stream.updates.length;
    // A label decides nothing, a draft does.
    await owner.put(at, { labels: 'a' });
    await mutate(owner, 'mergeRequestSetDraft', { ...named, draft: true });
    await until('the draft is told', () => stream.updates.length > before);
    expect(stream.updates.slice(before)).toMatchObject([
      { event: 'merge_request.updated', mergeRequest: { detailedMergeStatus: 'DRAFT_STATUS' } },
    ]);
    await owner.put(at, { state_event: 'close' });
    await until('the end is told', () => kindsOf(stream).includes('merge_request.closed'));
    const again = await follow(people.owner, 'mergeRequestMergeStatusUpdated', id, stream.updates.at(-2)?.cursor);
    await until('the rest has come again', () => again.updates.length === 1);
    expect(again.updates).toEqual(stream.updates.slice(-1));
    expect(stream.failures).toEqual([]);
  });

  it('follow approvals', async () => {
    const { at, id, people, maintainer } = await setUp();
    const stream = await follow(people.reporter, 'mergeRequestApprovalStateUpdated', id);
    expect((await maintainer.post(`${at}/approve`)).status).toBe(201);
    await until('the approval is told', () => stream.updates.length === 1);
    await maintainer.put(at, { labels: 'a' });
    await maintainer.post(`${at}/unapprove`);
    await until('its end is told', () => stream.updates.length === 2);
    expect(kindsOf(stream)).toEqual(['merge_request.approved', 'merge_request.unapproved']);
  });

  it('follow each version', async () => {
    const { owner, path, id, people, head, at } = await setUp();
    const stream = await follow(people.reporter, 'mergeRequestDiffGenerated', id);
    await until('the first version is told', () => stream.updates.length === 1);
    await owner.put(at, { title: 'Better' });
    const next = await commit(owner, path, 'feature', 'b.txt');
    await until('the second version is told', () => stream.updates.length === 2);
    expect(stream.updates).toMatchObject([
      { event: 'merge_request.prepared' },
      { event: 'merge_request.updated', mergeRequest: { diffHeadSha: next } },
    ]);
    expect(next).not.toBe(head);
  });

  it('follow reviewers, and requests for another review', async () => {
    const { owner, reporter, at, id, people, named } = await setUp();
    const { maintainer, owner: author } = people;
    const stream = await follow(people.reporter, 'mergeRequestReviewersUpdated', id);
    await owner.put(at, { labels: 'a' });
    await owner.put(at, { reviewer_ids: [maintainer.id] });
    await until('the reviewer is told', () => stream.updates.length === 1);
    expect(stream.updates[0]).toMatchObject({
      event: 'merge_request.updated',
      mergeRequest: { reviewers: { nodes: [{ username: maintainer.username }] } },
    });
    const { db } = app().hub.services;
    await db
      .updateTable('merge_request_reviewers')
      .set({ state: 'reviewed' })
      .where('user_id', '=', maintainer.id)
      .execute();
    const userId = `gid://gitlab/User/${maintainer.id}`;
    await mutate(owner, 'mergeRequestReviewerRereview', { ...named, userId }, 'mergeRequest { iid }');
    await until('the request is told', () => stream.updates.length === 2);
    const { state } = await db
      .selectFrom('merge_request_reviewers')
      .select('state')
      .where('user_id', '=', maintainer.id)
      .executeTakeFirstOrThrow();
    expect(state).toBe('unreviewed');
    const last = await db
      .selectFrom('events')
      .select('payload')
      .where('kind', '=', 'merge_request.updated')
      .orderBy('id', 'desc')
      .limit(1)
      .executeTakeFirstOrThrow();
    expect(last.payload).toMatchObject({
      changes: { reviewers: { current: [{ id: maintainer.id, state: 'unreviewed', re_requested: true }] } },
    });
    const rereview = (client: Client, who: TestUser) =>
      client.graphql(
        `mutation ($input: MergeRequestReviewerRereviewInput!) { mergeRequestReviewerRereview(input: $input) { errors } }`,
        { input: { ...named, userId: `gid://gitlab/User/${who.id}` } },
      );
    expect((await rereview(owner, author)).data.mergeRequestReviewerRereview.errors).toEqual(['Reviewer not found']);
    expect((await rereview(reporter, maintainer)).errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }]);
  });

  it('end for a member who loses access', async () => {
    const { owner, path, at, id, people } = await setUp();
    const [kept, lost] = await Promise.all([
      follow(people.owner, 'mergeRequestMergeStatusUpdated', id),
      follow(people.reporter, 'mergeRequestMergeStatusUpdated', id),
    ]);
    await until('both follow', () => [kept, lost].every((each) => kindsOf(each).includes('merge_request.checked')));
    const before = lost.updates.length;
    expect((await owner.delete(`${path}/members/${people.reporter.id}`)).status).toBe(204);
    await owner.put(at, { state_event: 'close' });
    await until('the member who stays hears', () => kindsOf(kept).includes('merge_request.closed'));
    await until('the stream of the other ends', () => lost.isOver);
    expect(lost.updates).toHaveLength(before);
  });

  it('are refused to those who cannot read it, and for other things', async () => {
    const { id, people, project } = await setUp();
    for (const [who, args] of [
      [people.stranger, id],
      [people.guest, id],
      [people.owner, 'issuableId: "gid://gitlab/MergeRequest/999999"'],
      [people.owner, `issuableId: "gid://gitlab/Issue/${project.id}"`],
    ] as const) {
      const stream = await follow(who, 'mergeRequestMergeStatusUpdated', args);
      await until('it is refused', () => stream.failures.length > 0);
      expect(stream.updates).toEqual([]);
    }
  });
});

describe('userMergeRequestUpdated', () => {
  it('reaches assignees and reviewers, also for approvals and when they leave', async () => {
    const { owner, at, people } = await setUp();
    const { reporter, maintainer } = people;
    const mine = `userId: "gid://gitlab/User/${reporter.id}"`;
    const stream = await follow(reporter, 'userMergeRequestUpdated', mine);
    await owner.put(at, { assignee_ids: [maintainer.id] });
    await owner.put(at, { reviewer_ids: [reporter.id] });
    await owner.put(at, { title: 'While reviewing' });
    expect((await app().as(maintainer).post(`${at}/approve`)).status).toBe(201);
    await owner.put(at, { reviewer_ids: [] });
    await owner.put(at, { title: 'Afterwards' });
    await owner.put(at, { assignee_ids: [reporter.id] });
    await until('all are told', () => stream.updates.length === 5);
    expect(stream.updates.map(({ mergeRequest }) => mergeRequest.iid)).toEqual(['1', '1', '1', '1', '1']);
    expect(new Set(kindsOf(stream))).toEqual(new Set(['merge_request.updated', 'merge_request.approved']));
    for (const who of [people.owner, people.stranger]) {
      const other = await follow(who, 'userMergeRequestUpdated', mine);
      await until('it is refused', () => other.failures.length > 0);
    }
  });
});
