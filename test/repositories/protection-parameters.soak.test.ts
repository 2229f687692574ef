import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestGroup } from '../support/factories.ts';

// Every form in which levels of protected branches and tags are given: plain, as lists, by id.

const app = useApp();
let client: Client;
let developer: TestUser;
let group: TestGroup;
let path: string;

beforeAll(async () => {
  const { make, as } = app();
  const owner = await make.user();
  developer = await make.user();
  client = as(owner);
  group = await make.group({}, owner);
  const project = await make.project({ namespace_id: group.id }, owner);
  await make.projectMember(project, developer, 30);
  path = `/projects/${project.id}/protected_branches`;
});

const ACTIONS = ['push', 'merge', 'unprotect'] as const;
interface Level {
  readonly id: number;
  readonly access_level: number | null;
  readonly user_id: number | null;
  readonly group_id: number | null;
}

/** The access levels, without their ids. */
const grantsOf = (levels: readonly Level[]) =>
  levels.map(({ access_level, user_id, group_id }) => (user_id ? { user_id } : group_id ? { group_id } : access_level));

describe('protected branches', () => {
  it.each(ACTIONS)('keep the levels that may %s, and change them by id', async (action) => {
    const list = `allowed_to_${action}`;
    const levelsIn = (body: Record<string, readonly Level[]>) => body[`${action}_access_levels`] ?? [];
    const grants = [{ access_level: 30 }, { user_id: developer.id }, { group_id: group.id }];
    const made = await client.post(path, { name: `${action}-list`, [list]: grants });
    expect(made.status).toBe(201);
    expect(grantsOf(levelsIn(made.body))).toEqual([30, { user_id: developer.id }, { group_id: group.id }]);
    const at = `${path}/${action}-list`;
    const [role, user, ofGroup] = levelsIn(made.body);
    // The unprotect levels of the owner's role come last, so that the owner may still change the protection.
    const changed = await client.patch(at, {
      [list]: [
        { id: role?.id, access_level: 40 },
        { id: user?.id, _destroy: true },
      ],
    });
    expect([changed.status, changed.body.message]).toEqual([200, undefined]);
    expect(grantsOf(levelsIn(changed.body))).toEqual([{ group_id: group.id }, 40]);
    const added = await client.patch(at, {
      [list]: [{ user_id: developer.id }, { id: ofGroup?.id, _destroy: true }, { access_level: 30 }],
    });
    expect(grantsOf(levelsIn(added.body))).toEqual([40, { user_id: developer.id }, 30]);
    const again = await client.patch(at, { [list]: [{ group_id: group.id }] });
    expect(grantsOf(levelsIn(again.body))).toContainEqual({ group_id: group.id });
    expect((await client.get(at)).body).toEqual(again.body);
    const unknown = await client.patch(at, { [list]: [{ id: 999_999, _destroy: true }] });
    expect([unknown.status, JSON.stringify(unknown.body)]).toEqual([400, expect.stringContaining('999999')]);
  });

  it('replace the roles with a plain level, and keep the other settings', async () => {
    const made = await client.post(path, {
      name: 'plain',
      push_access_level: 0,
      merge_access_level: 30,
      unprotect_access_level: 40,
      allow_force_push: true,
      code_owner_approval_required: true,
    });
    expect(made.body).toMatchObject({ allow_force_push: true, code_owner_approval_required: true });
    expect(ACTIONS.map((action) => grantsOf(made.body[`${action}_access_levels`]))).toEqual([[0], [30], [40]]);
    const changed = await client.patch(`${path}/plain`, {
      push_access_level: 40,
      merge_access_level: 0,
      unprotect_access_level: 60,
      allow_force_push: false,
      code_owner_approval_required: false,
    });
    expect(changed.body).toMatchObject({ allow_force_push: false, code_owner_approval_required: false });
    expect(ACTIONS.map((action) => grantsOf(changed.body[`${action}_access_levels`]))).toEqual([[40], [0], [60]]);
  });
});

it('protected tags keep each form of level', async () => {
  const tags = path.replace('protected_branches', 'protected_tags');
  const grants = [{ access_level: 30 }, { user_id: developer.id }, { group_id: group.id }];
  const { status, body } = await client.post(tags, { name: 'v*', allowed_to_create: grants });
  expect(status).toBe(201);
  expect(grantsOf(body.create_access_levels)).toEqual([30, { user_id: developer.id }, { group_id: group.id }]);
  expect((await client.get(`${tags}/v%2A`)).body).toEqual(body);
});
