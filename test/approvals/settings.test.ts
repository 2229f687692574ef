import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

const DEFAULTS = {
  approvers: [],
  approver_groups: [],
  approvals_before_merge: 0,
  reset_approvals_on_push: true,
  selective_code_owner_removals: false,
  disable_overriding_approvers_per_merge_request: false,
  merge_requests_author_approval: false,
  merge_requests_disable_committers_approval: false,
  require_password_to_approve: false,
  require_reauthentication_to_approve: false,
};

describe('the approval configuration of a project', () => {
  it('has defaults, and changes by attribute', async () => {
    const { maintainer, path, project } = await makeScene(app());
    expect(await maintainer.get(`${path}/approvals`)).toMatchObject({ status: 200, body: DEFAULTS });
    const all = {
      approvals_before_merge: 2,
      reset_approvals_on_push: false,
      selective_code_owner_removals: true,
      disable_overriding_approvers_per_merge_request: true,
      merge_requests_author_approval: true,
      merge_requests_disable_committers_approval: true,
      require_password_to_approve: true,
      require_reauthentication_to_approve: true,
    };
    const changed = await maintainer.post(`${path}/approvals`, all);
    expect(changed).toMatchObject({ status: 201, body: { approvers: [], approver_groups: [], ...all } });
    expect((await maintainer.get(`${path}/approvals`)).body).toEqual(changed.body);
    expect((await maintainer.get(path)).body).toMatchObject({ approvals_before_merge: 2 });
    // A request without changes is not an error.
    expect((await maintainer.post(`${path}/approvals`, {})).body).toEqual(changed.body);
    const { rows } = await app().hub.services.pool.query(
      "select min_access_level, payload from events where kind = 'approval_settings.updated' and project_id = $1",
      [project.id],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      min_access_level: 20,
      payload: {
        project_id: project.id,
        namespace_id: null,
        changes: {
          allow_author_approval: { previous: false, current: true },
          retain_approvals_on_push: { previous: false, current: true },
        },
      },
    });
  });

  it('keeps approvals of code owners only where a push does not remove all', async () => {
    const { maintainer, path } = await makeScene(app());
    const post = (body: Record<string, unknown>) => maintainer.post(`${path}/approvals`, body);
    const refusal = {
      status: 400,
      body: { message: { selective_code_owner_removals: ['needs approvals to be kept when commits are pushed'] } },
    };
    expect(await post({ selective_code_owner_removals: true })).toMatchObject(refusal);
    expect(await post({ reset_approvals_on_push: true, selective_code_owner_removals: true })).toMatchObject(refusal);
    await post({ reset_approvals_on_push: false });
    expect((await post({ selective_code_owner_removals: true })).body).toMatchObject({
      reset_approvals_on_push: false,
      selective_code_owner_removals: true,
    });
    expect((await post({ reset_approvals_on_push: true })).body).toMatchObject({
      reset_approvals_on_push: true,
      selective_code_owner_removals: false,
    });
  });

  it('prefers the newer of two names', async () => {
    const { maintainer, path } = await makeScene(app());
    const post = async (body: Record<string, unknown>) => (await maintainer.post(`${path}/approvals`, body)).body;
    expect(await post({ require_password_to_approve: true })).toMatchObject({
      require_password_to_approve: true,
      require_reauthentication_to_approve: true,
    });
    expect(await post({ require_password_to_approve: true, require_reauthentication_to_approve: false })).toMatchObject(
      { require_password_to_approve: false, require_reauthentication_to_approve: false },
    );
  });

  it('is read by those who read merge requests, and written by maintainers', async () => {
    const { owner, maintainer, reporter, guest, stranger, path } = await makeScene(app());
    const body = { merge_requests_author_approval: true };
    for (const [client, reading, writing] of [
      [maintainer, 200, 201],
      [reporter, 200, 403],
      [guest, 403, 403],
      [stranger, 404, 404],
      [app().anonymous, 401, 401],
    ] as const) {
      expect((await client.get(`${path}/approvals`)).status).toBe(reading);
      expect((await client.post(`${path}/approvals`, body)).status).toBe(writing);
    }
    await owner.put(path, { visibility: 'public' });
    expect((await stranger.get(`${path}/approvals`)).status).toBe(200);
    expect((await app().anonymous.get(`${path}/approvals`)).status).toBe(401);
    expect((await maintainer.post(`${path}/approvals`, { approvals_before_merge: 101 })).status).toBe(400);
    expect((await maintainer.post(`${path}/approvals`, { reset_approvals_on_push: 'perhaps' })).status).toBe(400);
  });
});

describe('the approval settings of groups', () => {
  const at = (place: string) => `${place}/merge_request_approval_setting`;
  const free = (value: boolean) => ({ value, locked: false, inherited_from: null });
  const locked = (value: boolean) => ({ value, locked: true, inherited_from: 'group' });

  it('restrict the groups and projects below', async () => {
    const { owner, maintainer, group, path } = await makeScene(app());
    const below = (await owner.post('/groups', { name: 'Below', path: 'below', parent_id: group.id })).body;
    const [top, sub] = [`/groups/${group.id}`, `/groups/${below.id}`];
    expect(await owner.get(at(top))).toMatchObject({
      status: 200,
      body: {
        allow_author_approval: free(true),
        allow_committer_approval: free(true),
        allow_overrides_to_approver_list_per_merge_request: free(true),
        retain_approvals_on_push: free(true),
        selective_code_owner_removals: free(false),
        require_password_to_approve: free(false),
        require_reauthentication_to_approve: free(false),
      },
    });
    await maintainer.post(`${path}/approvals`, {
      merge_requests_author_approval: true,
      reset_approvals_on_push: false,
    });
    const restrictions = {
      allow_author_approval: false,
      allow_committer_approval: false,
      allow_overrides_to_approver_list_per_merge_request: false,
      retain_approvals_on_push: false,
      require_reauthentication_to_approve: true,
    };
    expect(await owner.put(at(top), restrictions)).toMatchObject({
      status: 200,
      body: { allow_author_approval: free(false), require_password_to_approve: free(true) },
    });
    const governed = {
      allow_author_approval: locked(false),
      allow_committer_approval: locked(false),
      allow_overrides_to_approver_list_per_merge_request: locked(false),
      retain_approvals_on_push: locked(false),
      selective_code_owner_removals: locked(false),
      require_password_to_approve: locked(true),
      require_reauthentication_to_approve: locked(true),
    };
    expect((await owner.get(at(sub))).body).toEqual(governed);
    expect((await maintainer.get(at(path))).body).toEqual(governed);
    expect((await maintainer.get(`${path}/approvals`)).body).toEqual({
      ...DEFAULTS,
      disable_overriding_approvers_per_merge_request: true,
      merge_requests_disable_committers_approval: true,
      require_password_to_approve: true,
      require_reauthentication_to_approve: true,
    });
    // A project can repeat the demand of its group, but not undo it.
    expect((await maintainer.put(at(path), { allow_author_approval: false })).status).toBe(200);
    expect(await maintainer.put(at(path), { allow_author_approval: true })).toMatchObject({
      status: 400,
      body: { message: { allow_author_approval: ['is restricted by a group above'] } },
    });
    expect(await maintainer.post(`${path}/approvals`, { reset_approvals_on_push: false })).toMatchObject({
      status: 400,
      body: { message: { reset_approvals_on_push: ['is restricted by a group above'] } },
    });
    expect((await owner.put(at(sub), { selective_code_owner_removals: true })).status).toBe(400);
    // Both names of the setting are written.
    expect((await owner.put(at(top), { require_password_to_approve: false })).body).toMatchObject({
      require_password_to_approve: free(false),
      require_reauthentication_to_approve: free(false),
    });
    // The project's own choice is back once the group lifts its restriction.
    await owner.put(at(top), { retain_approvals_on_push: true, selective_code_owner_removals: true });
    expect((await maintainer.get(at(path))).body).toMatchObject({
      retain_approvals_on_push: free(true),
      selective_code_owner_removals: locked(true),
    });
  });

  it('change for projects too', async () => {
    const { maintainer, path } = await makeScene(app());
    const changes = {
      allow_author_approval: true,
      allow_committer_approval: false,
      allow_overrides_to_approver_list_per_merge_request: false,
      retain_approvals_on_push: true,
      selective_code_owner_removals: true,
      require_password_to_approve: true,
    };
    expect(await maintainer.put(at(path), changes)).toMatchObject({
      status: 200,
      body: {
        allow_author_approval: free(true),
        allow_committer_approval: free(false),
        allow_overrides_to_approver_list_per_merge_request: free(false),
        retain_approvals_on_push: free(true),
        selective_code_owner_removals: free(true),
        require_reauthentication_to_approve: free(true),
      },
    });
    expect((await maintainer.put(at(path), { require_reauthentication_to_approve: false })).body).toMatchObject({
      require_password_to_approve: free(false),
    });
    expect((await maintainer.put(at(path), {})).status).toBe(400);
  });

  it('are for owners of the group and maintainers of the project', async () => {
    const { owner, maintainer, reporter, stranger, group, path } = await makeScene(app());
    const top = at(`/groups/${group.id}`);
    const body = { allow_author_approval: false, selective_code_owner_removals: false };
    const groupMaintainer = await app().make.user();
    await app().make.groupMember(group, groupMaintainer, 40);
    for (const [client, status] of [
      [owner, 200],
      [app().as(groupMaintainer), 403],
      [stranger, 403],
      [app().anonymous, 401],
    ] as const) {
      expect((await client.get(top)).status).toBe(status);
      expect((await client.put(top, body)).status).toBe(status);
    }
    for (const [client, reading, writing] of [
      [maintainer, 200, 200],
      [reporter, 200, 403],
      [stranger, 404, 404],
      [app().anonymous, 401, 401],
    ] as const) {
      expect((await client.get(at(path))).status).toBe(reading);
      expect((await client.put(at(path), { allow_committer_approval: true })).status).toBe(writing);
    }
  });
});
