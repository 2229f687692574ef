import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { makeReview } from './support.ts';

const app = useApp();

describe('an approval rule of a merge request', () => {
  it('is created, listed, read, changed and deleted by its author', async () => {
    const { author, ada, at, id: mergeRequestId, users, people } = await makeReview(app());
    const team = await app().make.group({ visibility: 'public' }, users.author);
    const path = `${at}/approval_rules`;
    expect((await author.get(path)).body).toEqual([]);
    const made = await author.post(path, {
      name: 'Reviewers',
      approvals_required: 1,
      rule_type: 'regular',
      user_ids: [users.ada.id],
      usernames: [users.bob.username],
      group_ids: [team.id],
    });
    expect(made).toMatchObject({
      status: 201,
      body: {
        name: 'Reviewers',
        rule_type: 'regular',
        report_type: null,
        approvals_required: 1,
        users: [{ id: users.ada.id }, { id: users.bob.id }],
        groups: [{ id: team.id }],
        contains_hidden_groups: false,
        // Whom the settings keep out is decided when they approve.
        eligible_approvers: [{ id: users.author.id }, { id: users.ada.id }, { id: users.bob.id }],
        source_rule: null,
        overridden: false,
        section: null,
      },
    });
    const one = `${path}/${made.body.id}`;
    expect((await author.get(path)).body).toEqual([made.body]);
    expect((await ada.get(one)).body).toEqual(made.body);
    expect((await ada.get(`${at}/approvals`)).body).toMatchObject({ approvals_required: 1 });
    // Bots send the record back whole.
    const changed = await author.put(one, {
      ...made.body,
      name: 'Anyone',
      approvals_required: 0,
      rule_type: 'any_approver',
      user_ids: [],
      usernames: [],
      group_ids: [],
      remove_hidden_groups: true,
    });
    expect(changed).toMatchObject({
      status: 200,
      body: { name: 'Anyone', rule_type: 'any_approver', approvals_required: 0, users: [], groups: [] },
    });
    expect((await author.put(one, changed.body)).body).toEqual(changed.body);
    expect(await author.post(path, { name: 'x', approvals_required: 1 })).toMatchObject({
      status: 400,
      body: { message: { rule_type: ['any-approver for the merge request already exists'] } },
    });
    expect((await author.delete(one)).status).toBe(204);
    expect((await author.get(one)).status).toBe(404);
    expect((await author.put(one, { name: 'x' })).status).toBe(404);
    const { rows } = await app().hub.services.pool.query(
      "select kind, actor_id, payload from events where subject_type = 'MergeRequest' and subject_id = $1 and kind like 'approval_rule.%' order by id",
      [mergeRequestId],
    );
    const payload = { id: made.body.id, merge_request_id: mergeRequestId, project_id: null };
    expect(rows).toMatchObject(
      ['created', 'updated', 'deleted'].map((verb) => ({
        kind: `approval_rule.${verb}`,
        actor_id: users.author.id,
        payload,
      })),
    );
    expect(people.owner.id).not.toBe(users.author.id);
  });

  it('counts instead of those of the project, and may be copied from one', async () => {
    const { owner, author, at, path: projectPath, users } = await makeReview(app());
    const secret = await app().make.group({ visibility: 'private' }, undefined);
    const { body: rule } = await owner.post(`${projectPath}/approval_rules`, {
      name: 'Security',
      approvals_required: 2,
      user_ids: [users.ada.id, users.bob.id],
    });
    // The author cannot see this group of the rule.
    const { db } = app().hub.services;
    await db.insertInto('approval_rule_groups').values({ rule_id: rule.id, group_id: secret.id }).execute();
    expect((await author.get(`${at}/approvals`)).body).toMatchObject({ approvals_required: 2 });
    const copy = await author.post(`${at}/approval_rules`, {
      name: 'Another name',
      approvals_required: 2,
      approval_project_rule_id: rule.id,
    });
    expect(copy).toMatchObject({
      status: 201,
      body: {
        name: 'Security',
        rule_type: 'regular',
        users: [{ id: users.ada.id }, { id: users.bob.id }],
        groups: [],
        contains_hidden_groups: true,
        source_rule: { id: rule.id, name: 'Security', approvals_required: 2 },
        overridden: false,
      },
    });
    const one = `${at}/approval_rules/${copy.body.id}`;
    expect((await author.put(one, { approvals_required: 1, user_ids: [users.eve.id] })).body).toMatchObject({
      users: [{ id: users.eve.id }],
      overridden: true,
    });
    expect((await author.get(`${at}/approvals`)).body).toMatchObject({ approvals_required: 1 });
    // The rule of the project stays as it is, and may go.
    expect((await owner.get(`${projectPath}/approval_rules/${rule.id}`)).body).toMatchObject({ approvals_required: 2 });
    await owner.delete(`${projectPath}/approval_rules/${rule.id}`);
    expect((await author.get(one)).body).toMatchObject({ source_rule: null, overridden: false });
    expect(
      (await author.post(`${at}/approval_rules`, { ...copy.body, approval_project_rule_id: rule.id })).status,
    ).toBe(404);
    const { body: coverage } = await owner.post(`${projectPath}/approval_rules`, {
      name: 'Coverage-Check',
      approvals_required: 1,
      report_type: 'code_coverage',
    });
    expect(
      await author.post(`${at}/approval_rules`, {
        name: 'x',
        approvals_required: 1,
        approval_project_rule_id: coverage.id,
      }),
    ).toMatchObject({ status: 400, body: { message: { approval_project_rule_id: [expect.any(String)] } } });
  });

  it('needs the right to change the merge request, and a project that allows it', async () => {
    const { owner, author, ada, reporter, guest, stranger, path: projectPath, at, users } = await makeReview(app());
    const path = `${at}/approval_rules`;
    const body = { name: 'Mine', approvals_required: 1, user_ids: [users.bob.id] };
    const { body: rule } = await ada.post(path, body);
    for (const [client, reading, writing] of [
      [reporter, 200, 403],
      [guest, 403, 403],
      [stranger, 404, 404],
      [app().anonymous, 401, 401],
    ] as const) {
      expect((await client.get(path)).status).toBe(reading);
      expect((await client.get(`${path}/${rule.id}`)).status).toBe(reading);
      expect((await client.post(path, { ...body, name: 'Other' })).status).toBe(writing);
      expect((await client.put(`${path}/${rule.id}`, { approvals_required: 0 })).status).toBe(writing);
      expect((await client.delete(`${path}/${rule.id}`)).status).toBe(writing);
    }
    for (const wrong of [{ user_ids: [users.bob.id, 999_999_999] }, { approvals_required: 101 }, { name: 'Mine' }]) {
      expect((await author.post(path, { ...body, ...wrong })).status).toBe(400);
    }
    await owner.post(`${projectPath}/approvals`, { disable_overriding_approvers_per_merge_request: true });
    for (const client of [owner, author]) {
      expect(await client.post(path, { ...body, name: 'Other' })).toMatchObject({
        status: 403,
        body: { message: '403 Forbidden - rules of merge requests are not allowed in this project' },
      });
      expect((await client.put(`${path}/${rule.id}`, { approvals_required: 0 })).status).toBe(403);
      expect((await client.delete(`${path}/${rule.id}`)).status).toBe(403);
    }
    // It is stored, but does not count.
    expect((await author.get(`${at}/approvals`)).body).toMatchObject({ approvals_required: 0 });
    await owner.post(`${projectPath}/approvals`, { disable_overriding_approvers_per_merge_request: false });
    await ada.delete(`${path}/${rule.id}`);
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
    expect(await author.post(path, body)).toMatchObject({
      status: 403,
      body: { message: '403 Forbidden - the merge request is merged' },
    });
  });
});
