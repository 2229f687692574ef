import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { unassignFromIssues } from '#domains/issues/unassign.ts';
import { unassignFromMergeRequests } from '#domains/merge-requests/unassign.ts';
import type { EventRow } from '#platform/events.ts';
import { findEvents } from '../groups/find-events.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';

const app = useApp();

const addMergeRequest = async (project: TestProject, author: TestUser, iid: number): Promise<number> => {
  const { id } = await app()
    .hub.services.db.insertInto('merge_requests')
    .values({
      project_id: project.id,
      iid,
      title: 'M',
      author_id: author.id,
      source_branch: `b${iid}`,
      target_branch: 'main',
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
};

const addPeople = (
  table: 'merge_request_assignees' | 'merge_request_reviewers',
  merge_request_id: number,
  users: readonly TestUser[],
) =>
  app()
    .hub.services.db.insertInto(table)
    .values(users.map(({ id }) => ({ merge_request_id, user_id: id })))
    .execute();

const bodyOf = async (event: EventRow | undefined) => {
  if (!event) throw new Error('there is no event');
  return eventDefinitions.find(({ kind }) => kind === event.kind)?.body(app().context(), event);
};

const usernames = (people: readonly { readonly username: string }[]) => people.map(({ username }) => username);

describe('removing a member with unassign_issuables', () => {
  it('emits the events of a change by hand, for issues that the caller of the event may read', async () => {
    const { make, as } = app();
    const [owner, leaving, staying] = [await make.user(), await make.user(), await make.user()];
    const group = await make.group({ visibility: 'public' }, owner);
    const project = await make.project({ namespace_id: group.id, visibility: 'public' }, owner);
    await make.groupMember(group, leaving, 30);
    await make.groupMember(group, staying, 10);
    const path = `/projects/${project.id}/issues`;
    const assignee_ids = [leaving.id, staying.id];
    const { body: open } = await as(owner).post(path, { title: 'Open', assignee_ids });
    const { body: secret } = await as(owner).post(path, { title: 'Secret', assignee_ids, confidential: true });
    const { body: other } = await as(owner).post(path, { title: 'Other', assignee_ids: [staying.id] });

    const member = `/groups/${group.id}/members/${leaving.id}?unassign_issuables=true`;
    expect((await as(owner).delete(member)).status).toBe(204);
    const lastOf = async ({ id }: { id: number }) => (await findEvents(app(), 'Issue', id)).at(-1);
    expect((await lastOf(other))?.kind).toBe('issue.opened');
    const [ofOpen, ofSecret] = [await lastOf(open), await lastOf(secret)];
    for (const event of [ofOpen, ofSecret]) {
      expect(event).toMatchObject({
        kind: 'issue.updated',
        actor_id: owner.id,
        project_id: project.id,
        namespace_ids: [group.id],
        payload: {
          issue: { assignee_ids: [staying.id], updated_by_id: owner.id },
          changes: {
            assignees: {
              previous: [{ username: leaving.username }, { username: staying.username }],
              current: [{ username: staying.username }],
            },
            updated_by_id: { previous: null, current: owner.id },
            updated_at: { previous: expect.any(String), current: expect.any(String) },
          },
        },
      });
    }
    expect([ofOpen?.min_access_level, ofOpen?.user_ids]).toEqual([null, []]);
    // The member who has left may not read the confidential issue any more.
    expect([ofSecret?.min_access_level, ofSecret?.user_ids.toSorted()]).toEqual([
      15,
      [owner.id, staying.id].toSorted(),
    ]);
    const body = await bodyOf(ofOpen);
    expect(body).toMatchObject({ object_kind: 'issue', object_attributes: { action: 'update' } });
    const { updated_at, ...after } = (await as(owner).get(`${path}/${open.iid}`)).body;
    expect(usernames(after.assignees)).toEqual([staying.username]);
    expect(updated_at).not.toBe(open.updated_at);
  });

  it('emits an event for each merge request that loses an assignee or a reviewer', async () => {
    const { make, as } = app();
    const [owner, leaving, staying] = [await make.user(), await make.user(), await make.user()];
    const project = await make.project({ visibility: 'internal', merge_requests_access_level: 'private' }, owner);
    await make.projectMember(project, leaving, 30);
    const ids = [1, 2, 3].map((iid) => addMergeRequest(project, owner, iid));
    const [assigned = 0, reviewed = 0, untouched = 0] = await Promise.all(ids);
    await addPeople('merge_request_assignees', assigned, [leaving, staying]);
    await addPeople('merge_request_reviewers', reviewed, [leaving]);
    await addPeople('merge_request_reviewers', untouched, [staying]);

    const member = `/projects/${project.id}/members/${leaving.id}?unassign_issuables=true`;
    expect((await as(owner).delete(member)).status).toBe(204);
    expect(await findEvents(app(), 'MergeRequest', untouched)).toEqual([]);
    const [ofAssigned] = await findEvents(app(), 'MergeRequest', assigned);
    const [ofReviewed] = await findEvents(app(), 'MergeRequest', reviewed);
    expect(ofAssigned).toMatchObject({
      kind: 'merge_request.updated',
      actor_id: owner.id,
      min_access_level: 20,
      payload: {
        merge_request: { assignee_ids: [staying.id], reviewer_ids: [] },
        changes: { assignees: { current: [{ username: staying.username }] } },
      },
    });
    expect(ofReviewed?.payload).toMatchObject({
      merge_request: { reviewer_ids: [] },
      changes: { reviewers: { previous: [{ username: leaving.username }], current: [] } },
    });
    expect(await bodyOf(ofAssigned)).toMatchObject({
      object_kind: 'merge_request',
      user: { username: owner.username },
      object_attributes: { iid: 1, action: 'update', assignee_ids: [staying.id] },
      assignees: [{ username: staying.username }],
      changes: { assignees: { previous: expect.any(Array), current: expect.any(Array) } },
    });
    expect((await bodyOf(ofReviewed))?.reviewers).toBeUndefined();
  });

  it('takes no more statements for many issues and merge requests than for two', async () => {
    const { make, as } = app();
    const [owner, few, many] = [await make.user(), await make.user(), await make.user()];
    const projects = [await make.project({}, owner), await make.project({}, owner)];
    let iid = 0;
    const assign = async (user: TestUser, times: number) => {
      for (const project of projects) {
        await make.projectMember(project, user, 30);
        for (let i = 0; i < times; i++) {
          const input = { title: 'Work', assignee_ids: [user.id], confidential: i % 2 === 0 };
          expect((await as(owner).post(`/projects/${project.id}/issues`, input)).status).toBe(201);
          await addPeople('merge_request_assignees', await addMergeRequest(project, owner, ++iid), [user]);
        }
      }
    };
    await assign(few, 1);
    await assign(many, 5);
    const statements = (user: TestUser): Promise<number> => {
      let count = 0;
      return app()
        .context(owner)
        .transaction(async (tx) => {
          const db = tx.db.withPlugin({
            transformQuery: ({ node }) => {
              count++;
              return node;
            },
            transformResult: async ({ result }) => result,
          });
          const inAll = sql`${sql.join(projects.map(({ id }) => sql`${id}::bigint`))}`;
          await unassignFromIssues({ ...tx, db }, user.id, inAll);
          await unassignFromMergeRequests({ ...tx, db }, user.id, inAll);
          return count;
        });
    };
    const ofFew = await statements(few);
    expect(ofFew).toBeGreaterThan(5);
    expect(await statements(many)).toBe(ofFew);
  });
});
