import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { countStatements } from '../support/statements.ts';

const app = useApp();

const eventsOf = async (ruleId: number) => {
  const { rows } = await app().hub.services.pool.query(
    "select kind, min_access_level, project_id, payload from events where subject_type = 'ApprovalRule' and subject_id = $1 order by id",
    [ruleId],
  );
  return rows;
};

const protect = async (scene: Awaited<ReturnType<typeof makeScene>>, name: string): Promise<number> => {
  const answer = await scene.owner.post(`${scene.path}/protected_branches`, { name });
  expect(answer.status).toBe(201);
  return answer.body.id;
};

describe('an approval rule of a project', () => {
  it('accepts lists of approvers with commas, as forms send them', async () => {
    const { maintainer, path, people } = await makeScene(app());
    const made = await maintainer.post(`${path}/approval_rules`, {
      name: 'Two',
      approvals_required: 1,
      user_ids: `${people.owner.id},${people.maintainer.id}`,
      usernames: `${people.reporter.username},${people.maintainer.username}`,
    });
    expect(made.status).toBe(201);
    expect(made.body.users).toEqual(
      [people.owner, people.maintainer, people.reporter].map(({ id }) => expect.objectContaining({ id })),
    );
    const { body } = await maintainer.put(`${path}/approval_rules/${made.body.id}`, { user_ids: people.reporter.id });
    expect(body.users).toEqual([expect.objectContaining({ id: people.reporter.id })]);
  });

  it('is created, listed, read, changed and deleted, with events', async () => {
    const scene = await makeScene(app());
    const { maintainer, path, people } = scene;
    const team = await app().make.group({ visibility: 'private' }, people.maintainer);
    const release = await protect(scene, 'release/*');
    const made = await maintainer.post(`${path}/approval_rules`, {
      name: ' Security ',
      approvals_required: 2,
      user_ids: [people.reporter.id],
      usernames: [people.owner.username.toUpperCase()],
      group_ids: [team.id],
      protected_branch_ids: [release],
    });
    expect(made).toMatchObject({ status: 201 });
    const { id } = made.body;
    expect(made.body).toEqual({
      id,
      name: 'Security',
      rule_type: 'regular',
      report_type: null,
      approvals_required: 2,
      eligible_approvers: [people.owner, people.maintainer, people.reporter].map((each) =>
        expect.objectContaining({ id: each.id, username: each.username, state: 'active' }),
      ),
      users: [people.owner, people.reporter].map(({ id: userId }) => expect.objectContaining({ id: userId })),
      groups: [
        {
          id: team.id,
          name: team.path,
          path: team.path,
          description: '',
          visibility: 'private',
          lfs_enabled: true,
          avatar_url: null,
          web_url: expect.stringContaining(team.path),
          request_access_enabled: true,
          full_name: team.path,
          full_path: team.path,
          parent_id: null,
          ldap_cn: null,
          ldap_access: null,
        },
      ],
      contains_hidden_groups: false,
      applies_to_all_protected_branches: false,
      protected_branches: [expect.objectContaining({ id: release, name: 'release/*', inherited: false })],
    });
    expect((await maintainer.get(`${path}/approval_rules`)).body).toEqual([made.body]);
    expect((await maintainer.get(`${path}/approval_rules/${id}`)).body).toEqual(made.body);

    const changed = await maintainer.put(`${path}/approval_rules/${id}`, {
      name: 'Release',
      approvals_required: '1',
      usernames: [people.reporter.username],
      group_ids: [],
      applies_to_all_protected_branches: true,
      protected_branch_ids: [release],
    });
    expect(changed).toMatchObject({
      status: 200,
      body: {
        name: 'Release',
        approvals_required: 1,
        users: [{ id: people.reporter.id }],
        groups: [],
        applies_to_all_protected_branches: true,
        protected_branches: [{ name: 'main' }, { name: 'release/*' }],
      },
    });
    // Repeating the request changes nothing.
    expect((await maintainer.put(`${path}/approval_rules/${id}`, { name: 'Release', user_ids: null })).status).toBe(
      200,
    );
    expect((await maintainer.delete(`${path}/approval_rules/${id}`)).status).toBe(204);
    expect((await maintainer.get(`${path}/approval_rules/${id}`)).status).toBe(404);
    expect((await maintainer.delete(`${path}/approval_rules/${id}`)).status).toBe(404);

    const rule = { id, project_id: scene.project.id, namespace_id: null, merge_request_id: null, rule_type: 'regular' };
    expect(await eventsOf(id)).toEqual([
      expect.objectContaining({
        kind: 'approval_rule.created',
        min_access_level: 20,
        project_id: scene.project.id,
        payload: { ...rule, report_type: null, name: 'Security', approvals_required: 2 },
      }),
      expect.objectContaining({
        kind: 'approval_rule.updated',
        payload: expect.objectContaining({
          name: 'Release',
          changed: [
            'name',
            'approvals_required',
            'applies_to_all_protected_branches',
            'user_ids',
            'group_ids',
            'protected_branch_ids',
          ],
        }),
      }),
      expect.objectContaining({ kind: 'approval_rule.deleted' }),
    ]);
  });

  it('means anyone if it names nobody, once for each project', async () => {
    const { maintainer, path, people } = await makeScene(app());
    const anyone = await maintainer.post(`${path}/approval_rules`, { name: 'All Members', approvals_required: 1 });
    expect(anyone).toMatchObject({ status: 201, body: { rule_type: 'any_approver', eligible_approvers: [] } });
    expect(
      await maintainer.post(`${path}/approval_rules`, { name: 'Others', approvals_required: 2, user_ids: [] }),
    ).toMatchObject({
      status: 400,
      body: { message: { rule_type: ['any-approver for the project already exists'] } },
    });
    // A regular rule without approvers is possible if the caller asks for it.
    expect(
      await maintainer.post(`${path}/approval_rules`, { name: 'Later', approvals_required: 0, rule_type: 'regular' }),
    ).toMatchObject({ status: 201, body: { rule_type: 'regular' } });
    // People who are added to it are the only ones who count.
    const at = `${path}/approval_rules/${anyone.body.id}`;
    expect(await maintainer.put(at, { user_ids: [people.owner.id] })).toMatchObject({
      status: 200,
      body: { rule_type: 'regular', users: [{ id: people.owner.id }] },
    });
    expect(await maintainer.put(at, { rule_type: 'any_approver' })).toMatchObject({
      status: 400,
      body: { message: { rule_type: [expect.stringContaining('leave users and groups out')] } },
    });
    expect(await maintainer.put(at, { rule_type: 'any_approver', user_ids: [] })).toMatchObject({
      status: 200,
      body: { rule_type: 'any_approver', users: [] },
    });
  });

  it('has the name that its report demands', async () => {
    const { maintainer, path } = await makeScene(app());
    const post = (attributes: Record<string, unknown>) =>
      maintainer.post(`${path}/approval_rules`, { approvals_required: 1, ...attributes });
    expect(await post({ name: 'Coverage', report_type: 'code_coverage' })).toMatchObject({
      status: 400,
      body: { message: { name: ['must be Coverage-Check for the report type code_coverage'] } },
    });
    expect(await post({ name: 'Coverage-Check', report_type: 'code_coverage' })).toMatchObject({
      status: 201,
      body: { rule_type: 'report_approver', report_type: 'code_coverage' },
    });
    expect(await post({ name: 'License-Check', rule_type: 'report_approver' })).toMatchObject({
      status: 400,
      body: { message: { report_type: [expect.any(String)] } },
    });
    expect((await post({ name: 'x', rule_type: 'regular', report_type: 'license_scanning' })).status).toBe(400);
    expect((await post({ name: 'x', rule_type: 'code_owner' })).status).toBe(400);
  });

  it('refuses invalid attributes, and changes nothing', async () => {
    const scene = await makeScene(app());
    const { maintainer, path, people } = scene;
    const other = await makeScene(app());
    const foreign = await protect(other, 'x');
    const hidden = await app().make.group({ visibility: 'private' });
    await maintainer.post(`${path}/approval_rules`, { name: 'Taken', approvals_required: 0, rule_type: 'regular' });
    const nobody = 999_999_999;
    const refused: readonly (readonly [Record<string, unknown>, unknown])[] = [
      [{ name: undefined }, expect.anything()],
      [{ approvals_required: undefined }, expect.anything()],
      [{ approvals_required: 101 }, { approvals_required: ['must be less than or equal to 100'] }],
      [{ approvals_required: -1 }, { approvals_required: ['must be greater than or equal to 0'] }],
      [{ name: '  ' }, { name: ["can't be blank"] }],
      [{ name: 'x'.repeat(256) }, { name: ['is too long (maximum is 255 characters)'] }],
      [{ name: 'Taken', rule_type: 'regular' }, { name: ['has already been taken'] }],
      ...[people.stranger.id, people.guest.id, nobody].map(
        (id) => [{ user_ids: [id] }, { user_ids: [`must be Reporters or above in the project: ${id}`] }] as const,
      ),
      [{ usernames: ['nobody-here'] }, { usernames: ['nobody-here cannot be assigned'] }],
      ...[hidden.id, nobody].map(
        (id) => [{ group_ids: [id] }, { group_ids: [`must be groups that you can see: ${id}`] }] as const,
      ),
      ...[foreign, nobody].map(
        (id) =>
          [
            { protected_branch_ids: [id] },
            { protected_branch_ids: [`must be protected branches of the project: ${id}`] },
          ] as const,
      ),
      [{ user_ids: 'everyone' }, expect.anything()],
    ];
    for (const [attributes, message] of refused) {
      const answer = await maintainer.post(`${path}/approval_rules`, {
        name: 'New',
        approvals_required: 1,
        ...attributes,
      });
      expect([attributes, answer.status]).toEqual([attributes, 400]);
      if (answer.body.message) expect(answer.body.message).toEqual(message);
    }
    expect((await maintainer.get(`${path}/approval_rules`)).body).toHaveLength(1);
  });

  it('is read by those who read merge requests, and written by maintainers', async () => {
    const { owner, maintainer, reporter, guest, stranger, path, people } = await makeScene(app());
    const { body: rule } = await maintainer.post(`${path}/approval_rules`, {
      name: 'Review',
      approvals_required: 1,
      user_ids: [people.owner.id],
      applies_to_all_protected_branches: true,
    });
    const at = `${path}/approval_rules/${rule.id}`;
    // Only Developers see how branches are protected.
    expect((await reporter.get(at)).body).toEqual({ ...rule, protected_branches: [] });
    expect((await guest.get(at)).status).toBe(403);
    expect((await stranger.get(at)).status).toBe(404);
    expect((await app().anonymous.get(at)).status).toBe(401);
    for (const [client, status] of [
      [reporter, 403],
      [stranger, 404],
      [app().anonymous, 401],
    ] as const) {
      const body = { name: 'x', approvals_required: 0 };
      expect((await client.post(`${path}/approval_rules`, body)).status).toBe(status);
      expect((await client.put(at, body)).status).toBe(status);
      expect((await client.delete(at)).status).toBe(status);
    }
    expect((await owner.get(at)).body).toEqual(rule);
    await owner.put(path, { visibility: 'public' });
    expect((await stranger.get(at)).status).toBe(200);
    expect((await app().anonymous.get(at)).status).toBe(401);
    await owner.put(path, { merge_requests_access_level: 'disabled' });
    expect((await stranger.get(at)).status).toBe(404);
    expect((await maintainer.get(at)).status).toBe(200);
  });

  it('keeps groups that the caller cannot see, unless told otherwise', async () => {
    const { owner, maintainer, path, people } = await makeScene(app());
    const secret = await app().make.group({ visibility: 'private' }, people.owner);
    const open = await app().make.group({ visibility: 'public' }, people.owner);
    const { body: rule } = await owner.post(`${path}/approval_rules`, {
      name: 'Review',
      approvals_required: 1,
      group_ids: [secret.id, open.id],
    });
    const at = `${path}/approval_rules/${rule.id}`;
    expect(rule).toMatchObject({ contains_hidden_groups: false });
    expect((await maintainer.get(at)).body).toMatchObject({ groups: [{ id: open.id }], contains_hidden_groups: true });
    expect((await maintainer.put(at, { group_ids: [] })).body).toMatchObject({
      groups: [],
      contains_hidden_groups: true,
    });
    expect((await owner.get(at)).body).toMatchObject({ groups: [{ id: secret.id }], contains_hidden_groups: false });
    expect((await maintainer.put(at, { remove_hidden_groups: true })).body).toMatchObject({
      contains_hidden_groups: false,
    });
    expect((await owner.get(at)).body).toMatchObject({ groups: [], rule_type: 'regular' });
  });

  it('counts those as eligible who can approve now', async () => {
    const { owner, path, people, project } = await makeScene(app());
    const team = await app().make.group({ visibility: 'private' }, people.owner);
    const [outsider, gone] = [await app().make.user(), await app().make.user()];
    await app().make.groupMember(team, outsider, 30);
    await app().make.projectMember(project, gone, 30);
    const { body: rule } = await owner.post(`${path}/approval_rules`, {
      name: 'Review',
      approvals_required: 1,
      user_ids: [people.reporter.id, gone.id],
      group_ids: [team.id],
    });
    const eligible = async () =>
      (await owner.get(`${path}/approval_rules/${rule.id}`)).body.eligible_approvers.map(
        ({ id }: { id: number }) => id,
      );
    // The outsider cannot read the private project.
    expect(await eligible()).toEqual([people.owner.id, people.reporter.id, gone.id]);
    const { db } = app().hub.services;
    await db.updateTable('users').set({ state: 'blocked' }).where('id', '=', people.reporter.id).execute();
    await db.deleteFrom('members').where('user_id', '=', gone.id).execute();
    expect(await eligible()).toEqual([people.owner.id]);
    await owner.put(path, { visibility: 'internal' });
    // Who left the project does not approve by their name in the rule.
    expect(await eligible()).toEqual([people.owner.id, outsider.id]);
    // Users who are in the rule already may stay in it.
    expect(
      (await owner.put(`${path}/approval_rules/${rule.id}`, { user_ids: [people.reporter.id, gone.id] })).status,
    ).toBe(200);
  });

  it('is shown in lists with a constant number of statements', async () => {
    const scene = await makeScene(app());
    const { owner, path, people } = scene;
    const team = await app().make.group({}, people.owner);
    const add = (name: string) =>
      owner.post(`${path}/approval_rules`, {
        name,
        approvals_required: 1,
        user_ids: [people.owner.id],
        group_ids: [team.id],
        applies_to_all_protected_branches: true,
      });
    await add('one');
    const few = await countStatements(app(), () => owner.get(`${path}/approval_rules`));
    for (const name of ['two', 'three', 'four']) await add(name);
    expect(await countStatements(app(), () => owner.get(`${path}/approval_rules`))).toBeLessThanOrEqual(few);
    expect((await owner.get(`${path}/approval_rules?per_page=2&page=2`)).body).toMatchObject([
      { name: 'three' },
      { name: 'four' },
    ]);
  });

  it('lets one of two concurrent requests win', async () => {
    const { owner, maintainer, path } = await makeScene(app());
    const post = (client: typeof owner) =>
      client.post(`${path}/approval_rules`, { name: 'Any', approvals_required: 1 });
    const answers = await Promise.all([post(owner), post(maintainer)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 400]);
  });
});

describe('an approval rule of a group', () => {
  it('is administered by owners, and read by maintainers', async () => {
    const { owner, stranger, group, people } = await makeScene(app());
    const maintainer = await app().make.user();
    await app().make.groupMember(group, maintainer, 40);
    const path = `/groups/${group.id}/approval_rules`;
    const made = await owner.post(path, {
      name: 'Everywhere',
      approvals_required: 1,
      user_ids: [maintainer.id],
      usernames: [people.owner.username],
      group_ids: [group.id],
      rule_type: 'regular',
    });
    expect(made).toMatchObject({
      status: 201,
      body: {
        name: 'Everywhere',
        rule_type: 'regular',
        users: [{ id: people.owner.id }, { id: maintainer.id }],
        groups: [{ id: group.id }],
        eligible_approvers: [{ id: people.owner.id }, { id: maintainer.id }],
        applies_to_all_protected_branches: true,
        protected_branches: [],
      },
    });
    const at = `${path}/${made.body.id}`;
    expect((await app().as(maintainer).get(path)).body).toEqual([made.body]);
    for (const [client, reading, writing] of [
      [app().as(maintainer), 200, 403],
      [stranger, 403, 403],
      [app().anonymous, 401, 401],
    ] as const) {
      const body = { name: 'x', approvals_required: 0 };
      expect((await client.get(path)).status).toBe(reading);
      expect((await client.post(path, body)).status).toBe(writing);
      expect((await client.put(at, body)).status).toBe(writing);
      expect((await client.delete(at)).status).toBe(writing);
    }
    const changes = {
      name: 'Anyone',
      approvals_required: 2,
      user_ids: [],
      usernames: [],
      group_ids: [],
      remove_hidden_groups: true,
      rule_type: 'any_approver',
    };
    expect(await owner.put(at, changes)).toMatchObject({
      status: 200,
      body: { name: 'Anyone', approvals_required: 2, rule_type: 'any_approver', users: [], groups: [] },
    });
    expect(await owner.post(path, { name: 'x', approvals_required: 1 })).toMatchObject({
      status: 400,
      body: { message: { rule_type: ['any-approver for the group already exists'] } },
    });
    // Members of a project are not members of its group.
    expect(await owner.put(at, { user_ids: [people.reporter.id] })).toMatchObject({
      status: 400,
      body: { message: { user_ids: [`must be Reporters or above in the group: ${people.reporter.id}`] } },
    });
    expect((await owner.delete(at)).status).toBe(204);
    expect((await owner.get(path)).body).toEqual([]);
    expect(await eventsOf(made.body.id)).toMatchObject([
      { kind: 'approval_rule.created', min_access_level: 40, project_id: null },
      { kind: 'approval_rule.updated' },
      { kind: 'approval_rule.deleted' },
    ]);
  });
});
