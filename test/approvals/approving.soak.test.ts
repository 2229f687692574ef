import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashPassword } from '#domains/users/password.ts';
import { Receiver } from '../hooks/receiver.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { commitFiles, insertRule, makeReview, setSettings } from './support.ts';

const app = useApp();

const ids = (users: readonly { readonly user: { readonly id: number } }[]) => users.map(({ user }) => user.id);

describe('approving', () => {
  it('counts an approval, once, until it is taken back', async () => {
    const { ada, bob, at, project, users, head } = await makeReview(app());
    await insertRule(
      app(),
      { project_id: project.id },
      { name: 'All', rule_type: 'any_approver', approvals_required: 1 },
    );
    expect((await ada.get(`${at}/approvals`)).body).toMatchObject({
      iid: 1,
      state: 'opened',
      approved: false,
      approvals_required: 1,
      approvals_left: 1,
      approved_by: [],
      user_has_approved: false,
      user_can_approve: true,
      require_password_to_approve: false,
      has_approval_rules: true,
      approval_rules_left: [{ name: 'All', rule_type: 'any_approver' }],
      invalid_approvers_rules: [],
      approvers: [],
      approver_groups: [],
      merge_request_approvers_available: true,
      multiple_approval_rules_available: true,
    });
    const approved = await ada.post(`${at}/approve`, { sha: head });
    expect(approved).toMatchObject({
      status: 201,
      body: {
        approved: true,
        approvals_left: 0,
        user_has_approved: true,
        user_can_approve: false,
        approval_rules_left: [],
        approved_by: [{ user: { id: users.ada.id }, approved_at: expect.any(String) }],
      },
    });
    expect((await ada.post(`${at}/approve`)).status).toBe(304);
    expect((await bob.post(`${at}/unapprove`)).status).toBe(304);
    expect((await ada.post(`${at}/unapprove`)).body).toMatchObject({ approved: false, approved_by: [] });
    expect((await ada.post(`${at}/unapprove`)).status).toBe(304);
  });

  it('refuses another head, roles below Developer, strangers and merge requests that are not open', async () => {
    const { ada, guest, reporter, stranger, author, at } = await makeReview(app());
    expect(await ada.post(`${at}/approve`, { sha: 'a'.repeat(40) })).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining('SHA does not match HEAD of source branch') },
    });
    expect((await app().anonymous.post(`${at}/approve`)).status).toBe(401);
    expect((await app().anonymous.get(`${at}/approvals`)).status).toBe(401);
    expect((await stranger.post(`${at}/approve`)).status).toBe(404);
    expect((await guest.post(`${at}/approve`)).status).toBe(403);
    expect((await reporter.post(`${at}/approve`)).status).toBe(403);
    expect((await reporter.get(`${at}/approvals`)).status).toBe(200);
    await author.put(at, { state_event: 'close' });
    expect((await ada.post(`${at}/approve`)).status).toBe(403);
    expect((await ada.get(`${at}/approvals`)).body).toMatchObject({ approved_by: [], user_can_approve: false });
  });

  it('is undone with an event when the target branch changes', async () => {
    const { ada, author, owner, path, at, id, users } = await makeReview(app());
    await owner.post(`${path}/repository/branches`, { branch: 'stable', ref: 'main' });
    await owner.put(at, { reviewer_ids: [users.ada.id] });
    await ada.post(`${at}/approve`);
    await author.put(at, { target_branch: 'stable' });
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['payload', 'actor_id'])
      .where('kind', '=', 'merge_request.unapproved')
      .where('subject_id', '=', id)
      .execute();
    expect(events).toMatchObject([{ actor_id: users.author.id, payload: { user_ids: [users.ada.id] } }]);
    expect((await ada.get(`${at}/approvals`)).body.approved_by).toEqual([]);
    expect((await ada.get(`${at}/reviewers`)).body).toMatchObject([{ state: 'unapproved' }]);
  });

  it('lets a Reporter approve whom a rule names', async () => {
    const { reporter, people, at, project } = await makeReview(app());
    await insertRule(app(), { project_id: project.id }, { approvals_required: 1, users: [people.reporter] });
    expect((await reporter.post(`${at}/approve`)).body).toMatchObject({ approved: true });
  });

  it('keeps authors and committers out as configured', async () => {
    const { author, ada, at, path, project } = await makeReview(app());
    expect((await author.post(`${at}/approve`)).status).toBe(401);
    await setSettings(app(), project.id, { allow_author_approval: true, allow_committer_approval: false });
    // The author has committed too.
    expect((await author.post(`${at}/approve`)).status).toBe(401);
    await commitFiles(ada, path, { branch: 'feature', files: { 'ada.txt': 'x' } });
    await app().settle();
    expect((await ada.get(`${at}/approvals`)).body.user_can_approve).toBe(false);
    expect((await ada.post(`${at}/approve`)).status).toBe(401);
    await app()
      .hub.services.db.updateTable('approval_settings')
      .set({ allow_committer_approval: true })
      .where('project_id', '=', project.id)
      .execute();
    expect((await author.post(`${at}/approve`)).status).toBe(201);
  });

  it('asks for the password where settings say so', async () => {
    const { ada, at, project, users } = await makeReview(app());
    await setSettings(app(), project.id, { require_reauthentication_to_approve: true });
    await app()
      .hub.services.db.updateTable('users')
      .set({ password_hash: await hashPassword('correct horse battery') })
      .where('id', '=', users.ada.id)
      .execute();
    expect((await ada.get(`${at}/approvals`)).body.require_password_to_approve).toBe(true);
    expect((await ada.post(`${at}/approve`)).status).toBe(401);
    expect((await ada.post(`${at}/approve`, { approval_password: 'wrong' })).status).toBe(401);
    expect((await ada.post(`${at}/approve`, { approval_password: 'correct horse battery' })).status).toBe(201);
  });

  it('publishes the review with it, if asked to', async () => {
    const { ada, bob, at } = await makeReview(app());
    for (const client of [ada, bob])
      expect((await client.post(`${at}/draft_notes`, { note: 'Fine' })).status).toBe(201);
    const comments = async () =>
      (await ada.get(`${at}/notes`)).body.filter(({ system }: { system: boolean }) => !system).length;
    expect((await bob.post(`${at}/approve`)).status).toBe(201);
    expect(await comments()).toBe(0);
    expect((await ada.post(`${at}/approve`, { publish_review: true })).status).toBe(201);
    expect(await comments()).toBe(1);
    expect((await ada.get(`${at}/draft_notes`)).body).toEqual([]);
    expect((await bob.get(`${at}/draft_notes`)).body).toHaveLength(1);
  });

  it('sets the deprecated number of approvals, for Maintainers', async () => {
    const { ada, maintainer, at } = await makeReview(app());
    expect((await ada.post(`${at}/approvals`, { approvals_required: 2 })).status).toBe(403);
    expect((await maintainer.post(`${at}/approvals`, { approvals_required: 101 })).status).toBe(400);
    expect(await maintainer.post(`${at}/approvals`, { approvals_required: 2 })).toMatchObject({
      status: 201,
      body: { approvals_required: 2, approvals_left: 2, approved: false },
    });
  });

  it('is reset by bots of projects and groups only', async () => {
    const { ada, owner, at, project, users } = await makeReview(app());
    for (const user_type of ['project_bot', 'service_account'] as const) {
      await ada.post(`${at}/approve`);
      expect((await owner.put(`${at}/reset_approvals`)).status).toBe(401);
      const bot = await app().make.user({ user_type });
      await app().make.projectMember(project, bot, 20);
      expect((await app().as(bot).put(`${at}/reset_approvals`)).status).toBe(401);
      expect(ids((await ada.get(`${at}/approvals`)).body.approved_by)).toEqual([users.ada.id]);
      const other = await app().make.user({ user_type });
      await app().make.projectMember(project, other, 30);
      expect(await app().as(other).put(`${at}/reset_approvals`)).toMatchObject({ status: 202 });
      expect((await ada.get(`${at}/approvals`)).body.approved_by).toEqual([]);
    }
  });
});

describe('rules', () => {
  it('count only their own people, and sum up', async () => {
    const { ada, bob, at, project, users, author } = await makeReview(app());
    const of = { project_id: project.id };
    await insertRule(app(), of, { name: 'A', approvals_required: 1, users: [users.ada, users.author] });
    await insertRule(app(), of, { name: 'B', approvals_required: 1, users: [users.bob, users.ada] });
    await insertRule(app(), of, { name: 'Any', rule_type: 'any_approver', approvals_required: 1 });
    const state = async () => (await author.get(`${at}/approvals`)).body;
    expect(await state()).toMatchObject({ approvals_required: 2, approvals_left: 2 });
    expect((await state()).approval_rules_left.map(({ name }: { name: string }) => name)).toEqual(['A', 'B']);
    expect((await state()).suggested_approvers.map(({ id }: { id: number }) => id).sort()).toEqual(
      [users.ada.id, users.bob.id].sort(),
    );
    await bob.post(`${at}/approve`);
    expect(await state()).toMatchObject({ approved: false, approvals_left: 1, approval_rules_left: [{ name: 'A' }] });
    await ada.post(`${at}/approve`);
    expect(await state()).toMatchObject({ approved: true, approvals_left: 0 });
  });

  it('that nobody could meet count as approved, and are named', async () => {
    const { author, at, project, users } = await makeReview(app());
    await insertRule(app(), { project_id: project.id }, { name: 'Self', approvals_required: 1, users: [users.author] });
    expect((await author.get(`${at}/approvals`)).body).toMatchObject({
      approved: true,
      invalid_approvers_rules: [{ name: 'Self', rule_type: 'regular' }],
    });
  });
});

describe('pushes', () => {
  const approvers = async (review: Awaited<ReturnType<typeof makeReview>>) =>
    ids((await review.owner.get(`${review.at}/approvals`)).body.approved_by);

  it('remove approvals of other changes, and keep those of the same', async () => {
    const review = await makeReview(app());
    const { ada, author, owner, path, users } = review;
    await ada.post(`${review.at}/approve`);
    // The same change on top of a newer target branch.
    await commitFiles(owner, path, { branch: 'main', files: { 'other.txt': 'x' } });
    const rebased = await author.post(`${path}/repository/commits`, {
      branch: 'feature',
      start_branch: 'main',
      force: true,
      commit_message: 'Rebased',
      actions: [{ action: 'create', file_path: 'new.txt', content: 'text\n' }],
    });
    expect(rebased.status).toBe(201);
    await app().settle();
    expect((await owner.get(review.at)).body.sha).toBe(rebased.body.id);
    expect(await approvers(review)).toEqual([users.ada.id]);
    await commitFiles(author, path, { branch: 'feature', files: { 'more.txt': 'x' } });
    await app().settle();
    expect(await approvers(review)).toEqual([]);
  });

  it('leave no approval of an earlier head, however they meet', async () => {
    const review = await makeReview(app());
    const { ada, bob, author, path, at, id } = review;
    for (const round of ['1', '2', '3']) {
      const files = { [`${round}.txt`]: round };
      await Promise.all([
        commitFiles(author, path, { branch: 'feature', files }),
        ada.post(`${at}/approve`),
        bob.post(`${at}/approve`),
        review.owner.get(at),
      ]);
      await app().settle();
      const { sha } = (await review.owner.get(at)).body;
      const left = await app()
        .hub.services.db.selectFrom('merge_request_approvals')
        .select('head_sha')
        .where('merge_request_id', '=', id)
        .execute();
      expect(left.filter(({ head_sha }) => head_sha !== sha)).toEqual([]);
      for (const client of [ada, bob]) await client.post(`${at}/unapprove`);
    }
  });

  it('remove approvals of closed merge requests too', async () => {
    const review = await makeReview(app());
    const { ada, author, owner, path, at, users } = review;
    await ada.post(`${at}/approve`);
    await author.put(at, { state_event: 'close' });
    await commitFiles(owner, path, { branch: 'main', files: { 'other.txt': 'x' } });
    const same = { action: 'create', file_path: 'new.txt', content: 'text\n' };
    const rebase = { branch: 'feature', start_branch: 'main', force: true, commit_message: 'Rebased', actions: [same] };
    expect((await author.post(`${path}/repository/commits`, rebase)).status).toBe(201);
    await app().settle();
    expect(await approvers(review)).toEqual([users.ada.id]);
    await commitFiles(author, path, { branch: 'feature', files: { 'more.txt': 'x' } });
    await app().settle();
    expect(await approvers(review)).toEqual([]);
    const notes = (await owner.get(`${at}/notes`)).body.map(({ body }: { readonly body: string }) => body);
    expect(notes).toContain(`revoked approvals from @${users.ada.username}`);
    // It has no version of the push until it is open again.
    expect((await owner.get(`${at}/versions`)).body).toHaveLength(1);
    await author.put(at, { state_event: 'reopen' });
    await app().settle();
    expect((await owner.get(`${at}/versions`)).body).toHaveLength(2);
  });

  it('keep approvals where settings say so', async () => {
    const review = await makeReview(app());
    await setSettings(app(), review.project.id, { retain_approvals_on_push: true });
    await review.ada.post(`${review.at}/approve`);
    await commitFiles(review.author, review.path, { branch: 'feature', files: { 'more.txt': 'x' } });
    await app().settle();
    expect(await approvers(review)).toEqual([review.users.ada.id]);
  });
});

describe('hooks of approvals', () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
    await app().as(app().root).put('/application/settings', {
      allow_local_requests_from_web_hooks_and_services: true,
    });
  });
  afterAll(() => receiver[Symbol.asyncDispose]());

  it('distinguish single approvals from the deciding ones, and people from pushes', async () => {
    const { ada, bob, owner, author, path, at, project, users } = await makeReview(app());
    await insertRule(
      app(),
      { project_id: project.id },
      { name: 'All', rule_type: 'any_approver', approvals_required: 2 },
    );
    const hook = { url: receiver.url, merge_requests_events: true, push_events: false };
    expect((await owner.post(`${path}/hooks`, hook)).status).toBe(201);
    await ada.post(`${at}/approve`);
    await bob.post(`${at}/approve`);
    await ada.post(`${at}/unapprove`);
    await ada.post(`${at}/approve`);
    await commitFiles(author, path, { branch: 'feature', files: { 'more.txt': 'x' } });
    await until('all arrive', () => receiver.received.length === 6);
    const bodies = receiver.received.map(({ body }) => body);
    const of = (action: string) => bodies.filter((body) => body.object_attributes.action === action);
    expect(of('approval')).toMatchObject([{ user: { id: users.ada.id } }]);
    expect(of('approved')).toHaveLength(2);
    expect(of('update')).toHaveLength(1);
    const ends = of('unapproved').map(({ user, object_attributes: { system, system_action } }) => [
      user.id,
      system,
      system_action,
    ]);
    expect(ends).toEqual(
      expect.arrayContaining([
        [users.ada.id, undefined, undefined],
        [users.author.id, true, 'approvals_reset_on_push'],
      ]),
    );
  });
});

describe('a rule', () => {
  it('lets nobody approve whom it names and who left a public project', async () => {
    const { owner, reporter, people, path, at, project } = await makeReview(app(), {
      project: { visibility: 'public' },
    });
    const { id } = people.reporter;
    await insertRule(app(), { project_id: project.id }, { approvals_required: 1, users: [people.reporter] });
    const eligible = async () => {
      const [rule] = (await owner.get(`${path}/approval_rules`)).body;
      return rule.eligible_approvers.map((each: { id: number }) => each.id);
    };
    expect(await eligible()).toEqual([id]);
    expect((await owner.delete(`${path}/members/${id}`)).status).toBe(204);
    expect(await eligible()).toEqual([]);
    expect((await reporter.get(at)).status).toBe(200);
    expect((await reporter.post(`${at}/approve`)).status).toBe(403);
  });
});

describe('lists', () => {
  it('ignore the sixth approver, and show anonymous callers no rules', async () => {
    const { ada, path, at, project, users } = await makeReview(app(), { project: { visibility: 'public' } });
    await insertRule(app(), { project_id: project.id }, { approvals_required: 1, users: [users.bob] });
    await ada.post(`${at}/approve`);
    const count = async (client: typeof ada, query: string) =>
      (await client.get(`${path}/merge_requests?${query}`)).body.length;
    const five = Array.from({ length: 5 }, () => users.ada.id).join();
    expect(await count(ada, `approved_by_ids=${five},${users.bob.id}`)).toBe(1);
    expect(await count(ada, `approved_by_ids=${users.ada.id},${users.bob.id}`)).toBe(0);
    expect(await count(ada, `approver_ids=${users.bob.id}`)).toBe(1);
    for (const choice of [users.bob.id, 'Any', 'None']) {
      expect(await count(app().anonymous, `approver_ids=${choice}`)).toBe(0);
    }
  });
});
