import { beforeAll, describe, expect, it } from 'vitest';
import { DEVELOPER, GUEST, MAINTAINER, OWNER } from '#domains/access/model.ts';
import { gid } from '#graphql/ids.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup } from '../support/factories.ts';
import { expectLists, type ListCase, mutate } from '../support/graphql.ts';

// Sets each argument of the lists of groups and namespaces, and each field of their mutations.

const app = useApp();
const db = () => app().hub.services.db;
let owner: TestUser;
let member: TestUser;
let top: TestGroup;
let open: TestGroup;
let closed: TestGroup;

beforeAll(async () => {
  const { make } = app();
  owner = await make.user();
  member = await make.user({ username: 'lister' });
  top = await make.group({ name: 'Top', path: 'arguments', visibility: 'public' }, owner);
  open = await make.group({ name: 'Open', path: 'arguments-open', visibility: 'public', parent_id: top.id }, owner);
  closed = await make.group(
    { name: 'Closed', path: 'arguments-closed', visibility: 'internal', parent_id: open.id },
    owner,
  );
  await make.groupMember(open, member, OWNER);
});

describe('lists of groups', () => {
  it('take each argument', async () => {
    await db()
      .updateTable('namespaces')
      .set({ marked_for_deletion_on: '2020-01-01', repository_storage: 'far' })
      .where('id', '=', closed.id)
      .execute();
    const other = await app().make.group({ name: 'Other', path: 'arguments-too', visibility: 'public' }, owner);
    await app().make.groupMember(other, member, DEVELOPER);
    const BELOW = 'parentPath: "arguments"';
    const table: readonly ListCase[] = [
      [BELOW, ['Open', 'Closed']],
      [`ids: ["${gid('Group', top.id)}", "${gid('Group', closed.id)}"]`, ['Top', 'Closed']],
      [`${BELOW}, skipGroups: ["${gid('Group', open.id)}"]`, ['Closed']],
      [`${BELOW}, visibility: internal`, ['Closed']],
      [`${BELOW}, markedForDeletionOn: "2020-01-01"`, ['Closed']],
      ['search: "arguments", topLevelOnly: true', ['Top', 'Other']],
      ['search: "arguments", allAvailable: true', ['Top', 'Open', 'Closed', 'Other']],
      ['search: "arguments", allAvailable: false', ['Open', 'Closed', 'Other']],
      ['search: "arguments", ownedOnly: true', ['Open', 'Closed']],
      ['search: "arguments", minAccessLevel: DEVELOPER', ['Open', 'Closed', 'Other']],
      ['search: "arguments", minAccessLevel: OWNER', ['Open', 'Closed']],
      ['search: "arguments", sort: NAME_DESC', ['Top', 'Other', 'Open', 'Closed']],
      // Only for administrators.
      [`${BELOW}, repositoryStorage: "far"`, ['Open', 'Closed']],
    ];
    await expectLists(app().as(member), '', 'groups', 'name', table);
    await expectLists(app().as(app().root), '', 'groups', 'name', [
      [`${BELOW}, repositoryStorage: "far"`, ['Closed']],
      [`${BELOW}, repositoryStorage: "near"`, []],
    ]);
  });

  it('take each argument below a group', async () => {
    const place = 'group(fullPath: "arguments")';
    await expectLists(app().as(member), place, 'descendantGroups', 'name', [
      ['includeParentDescendants: true', ['Open', 'Closed']],
      ['includeParentDescendants: false', ['Open']],
      ['search: "clos"', ['Closed']],
      ['owned: true', ['Open', 'Closed']],
    ]);
    const lesser = await app().make.user();
    await app().make.groupMember(top, lesser, MAINTAINER);
    await expectLists(app().as(lesser), place, 'descendantGroups', 'name', [['owned: true', []]]);
  });

  it('take each argument for groups that are shared with a group', async () => {
    const host = await app().make.group({ visibility: 'public' }, owner);
    for (const { id } of [open, closed]) {
      const answer = await app().as(owner).post(`/groups/${id}/share`, { group_id: host.id, group_access: GUEST });
      expect(answer.status).toBe(200);
    }
    await expectLists(app().as(member), `group(fullPath: "${host.full_path}")`, 'sharedGroups', 'name', [
      ['', ['Open', 'Closed']],
      ['search: "ope"', ['Open']],
      ['visibility: internal', ['Closed']],
    ]);
  });

  it('are searched by name for one user', async () => {
    const person = await app().make.user();
    await app().make.groupMember(top, person, GUEST);
    await app().make.groupMember(closed, person, GUEST);
    for (const place of ['currentUser', `user(username: "${person.username}") { ... on UserCore`])
      await expectLists(app().as(person), place, 'groups', 'name', [
        ['', ['Top', 'Closed']],
        ['search: "TOP"', ['Top']],
      ]);
  });
});

describe('namespaces', () => {
  it('are listed by each argument', async () => {
    const person = await app().make.user();
    await app().make.groupMember(top, person, GUEST);
    const own = await app().make.group({ path: 'own-namespace' }, person);
    await expectLists(app().as(person), '', 'namespaces', 'fullPath', [
      ['', [person.username, own.full_path, top.full_path, open.full_path, closed.full_path]],
      ['search: "OPEN"', [open.full_path, closed.full_path]],
      ['ownedOnly: true', [person.username, own.full_path]],
      ['topLevelOnly: true', [person.username, own.full_path, top.full_path]],
    ]);
  });

  it('say whether a path is taken, at the top or below a group', async () => {
    const { data, errors } = await app()
      .as(member)
      .graphql(`{
      top: namespacePath(path: "arguments-open") { exists }
      below: namespacePath(path: "ARGUMENTS-OPEN", parentPath: "arguments") { exists suggests }
      free: namespacePath(path: "free", parentPath: "arguments") { exists suggests } }`);
    expect(errors).toBeUndefined();
    expect(data).toEqual({
      top: { exists: false },
      below: { exists: true, suggests: ['ARGUMENTS-OPEN1'] },
      free: { exists: false, suggests: [] },
    });
  });
});

describe('mutations of groups', () => {
  const defaults = (role: number, flag: boolean) => ({
    input: {
      allowedToPush: [{ accessLevel: role }],
      allowedToMerge: [{ accessLevel: role }],
      allowForcePush: flag,
      developerCanInitialPush: !flag,
      codeOwnerApprovalRequired: flag,
    },
    shown: {
      allowed_to_push: [{ access_level: role }],
      allowed_to_merge: [{ access_level: role }],
      allow_force_push: flag,
      developer_can_initial_push: !flag,
      code_owner_approval_required: flag,
    },
  });

  it('write each attribute on creation and later', async () => {
    const client = app().as(owner);
    const [first, second] = [defaults(DEVELOPER, true), defaults(MAINTAINER, false)];
    const { group } = await mutate(
      client,
      'groupCreate',
      {
        name: 'First',
        path: 'written-group',
        autoDevopsEnabled: true,
        defaultBranch: 'trunk',
        defaultBranchProtectionDefaults: first.input,
        mentionsDisabled: true,
      },
      'group { fullPath }',
    );
    const { fullPath } = group;
    const read = async () => (await client.get(`/groups/${fullPath}`)).body;
    expect(await read()).toMatchObject({
      auto_devops_enabled: true,
      default_branch: 'trunk',
      default_branch_protection_defaults: first.shown,
      mentions_disabled: true,
    });
    await mutate(client, 'groupUpdate', {
      fullPath,
      name: 'Second',
      visibility: 'public',
      autoDevopsEnabled: false,
      defaultBranchProtectionDefaults: second.input,
      mentionsDisabled: false,
    });
    expect(await read()).toMatchObject({
      name: 'Second',
      visibility: 'public',
      auto_devops_enabled: false,
      default_branch_protection_defaults: second.shown,
      mentions_disabled: false,
    });
  });
});
