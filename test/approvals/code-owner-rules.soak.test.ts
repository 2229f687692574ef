import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { commitFiles, makeReview, setSettings } from './support.ts';

const app = useApp();

type Options = Parameters<typeof makeReview>[1];

/** A merge request into a branch that requires code owners. `{ada}` in files stands for a user name. */
const makeOwned = async (
  codeOwners: (names: Record<string, string>) => string,
  options: Options = {},
  place = 'CODEOWNERS',
) => {
  const review = await makeReview(app(), options);
  const { owner, path, users, group } = review;
  await requireOwners(owner, path);
  const names = Object.fromEntries(Object.entries(users).map(([name, { username }]) => [name, `@${username}`]));
  const text = codeOwners({ ...names, group: `@${group.full_path}` });
  await commitFiles(owner, path, { branch: 'main', files: { [place]: text } });
  await app().settle();
  return { ...review, names };
};

const requireOwners = async (owner: Client, path: string): Promise<void> => {
  await owner.delete(`${path}/protected_branches/main`);
  const made = await owner.post(`${path}/protected_branches`, { name: 'main', code_owner_approval_required: true });
  expect(made.status).toBe(201);
};

const approvals = async (client: Client, at: string) => (await client.get(`${at}/approvals`)).body;

describe('code owners', () => {
  it('must approve changes of the files that they own, by section', async () => {
    const { owner, ada, bob, eve, at } = await makeOwned(
      ({ ada, bob, eve }) => `
*.md ${ada}
README.md ${eve}
[Docs][2] ${ada} ${bob}
docs/
^[Optional] ${eve}
*
[Nobody] @nobody-of-this-name
*
`,
      { files: { 'docs/guide.md': 'x' } },
      '.gitlab/CODEOWNERS',
    );
    expect(await approvals(owner, at)).toMatchObject({
      approved: false,
      approvals_required: 3,
      approvals_left: 3,
      approval_rules_left: [
        { name: '*.md', rule_type: 'code_owner' },
        { name: 'docs/', rule_type: 'code_owner' },
      ],
      has_approval_rules: false,
    });
    await eve.post(`${at}/approve`);
    expect(await approvals(owner, at)).toMatchObject({ approvals_left: 3 });
    await ada.post(`${at}/approve`);
    expect(await approvals(owner, at)).toMatchObject({ approvals_left: 1, approval_rules_left: [{ name: 'docs/' }] });
    await bob.post(`${at}/approve`);
    expect(await approvals(owner, at)).toMatchObject({ approved: true });
  });

  it('follow the target branch, and the commits of the merge request', async () => {
    const { owner, author, path, at, names } = await makeOwned(({ ada }) => `other.txt ${ada}`);
    expect(await approvals(owner, at)).toMatchObject({ approved: true, approvals_required: 0 });
    await commitFiles(author, path, { branch: 'feature', files: { 'other.txt': 'x' } });
    await app().settle();
    expect(await approvals(owner, at)).toMatchObject({ approvals_required: 1 });
    await commitFiles(owner, path, {
      branch: 'main',
      action: 'update',
      files: { CODEOWNERS: `other.txt ${names.ada}\nnew.txt ${names.bob}` },
    });
    await app().settle();
    expect(await approvals(owner, at)).toMatchObject({ approvals_required: 2 });
    await owner.post(`${path}/repository/commits`, {
      branch: 'main',
      commit_message: 'Nobody owns anything',
      actions: [{ action: 'delete', file_path: 'CODEOWNERS' }],
    });
    await app().settle();
    expect(await approvals(owner, at)).toMatchObject({ approvals_required: 0 });
  });

  it('are found by address, group and role, among those with access', async () => {
    const { owner, maintainer, at, path, users, project, names } = await makeOwned(() => '');
    const outsider = await app().make.user();
    const invited = await app().make.group({ visibility: 'public' }, await app().make.user());
    await app().make.groupMember(invited, users.bob, 30);
    const secret = await app().make.group({}, outsider);
    await commitFiles(owner, path, {
      branch: 'main',
      action: 'update',
      files: {
        CODEOWNERS: `[Address]\nnew.txt ${names.ada?.slice(1)}@example.com\n[Role]\nnew.txt @@maintainer\n[Group]\nnew.txt @${invited.full_path}\n[Stranger]\nnew.txt @${outsider.username} @${secret.full_path}\n`,
      },
    });
    await app().settle();
    // Neither the group nor the stranger takes part in the project.
    expect(await approvals(owner, at)).toMatchObject({ approvals_required: 2 });
    const shared = await owner.post(`/projects/${project.id}/share`, { group_id: invited.id, group_access: 30 });
    expect(shared.status).toBe(201);
    expect(await approvals(owner, at)).toMatchObject({ approvals_required: 3 });
    await maintainer.post(`${at}/approve`);
    expect(await approvals(owner, at)).toMatchObject({ approvals_left: 2 });
    await app().as(users.bob).post(`${at}/approve`);
    await app().as(users.ada).post(`${at}/approve`);
    expect(await approvals(owner, at)).toMatchObject({ approved: true });
  });

  it('own both names of a file that moves', async () => {
    const { owner, author, path, at } = await makeOwned(({ ada, bob }) => `/guarded.txt ${ada}\n/free.txt ${bob}`, {
      main: { 'guarded.txt': 'a long enough text to be found again\n'.repeat(10) },
    });
    const moved = await author.post(`${path}/repository/commits`, {
      branch: 'feature',
      commit_message: 'Move',
      actions: [{ action: 'move', previous_path: 'guarded.txt', file_path: 'free.txt' }],
    });
    expect(moved.status).toBe(201);
    await app().settle();
    expect((await approvals(owner, at)).approval_rules_left).toMatchObject([
      { name: '/guarded.txt' },
      { name: '/free.txt' },
    ]);
  });

  it('are nobody while the branch does not require them, or the file is too large', async () => {
    const { owner, path, at, names } = await makeOwned(({ ada }) => `* ${ada}`);
    expect(await approvals(owner, at)).toMatchObject({ approvals_required: 1 });
    await owner.patch(`${path}/protected_branches/main`, { code_owner_approval_required: false });
    expect(await approvals(owner, at)).toMatchObject({ approvals_required: 0 });
    await owner.patch(`${path}/protected_branches/main`, { code_owner_approval_required: true });
    await commitFiles(owner, path, {
      branch: 'main',
      action: 'update',
      files: { CODEOWNERS: `* ${names.ada}\n# ${'x'.repeat(1024 * 1024)}` },
    });
    await app().settle();
    expect(await approvals(owner, at)).toMatchObject({ approvals_required: 0 });
  });

  it('lose their approval alone if a push changes their files, where settings are selective', async () => {
    const { owner, author, ada, bob, eve, path, at, project, users } = await makeOwned(
      ({ ada, bob }) => `*.txt ${ada}\n*.md ${bob}`,
    );
    await setSettings(app(), project.id, { retain_approvals_on_push: true, selective_code_owner_removals: true });
    for (const client of [ada, bob, eve]) expect((await client.post(`${at}/approve`)).status).toBe(201);
    await commitFiles(author, path, { branch: 'feature', files: { 'more.md': 'x' } });
    await app().settle();
    const { approved_by } = await approvals(owner, at);
    expect(approved_by.map(({ user }: { user: { id: number } }) => user.id)).toEqual([users.ada.id, users.eve.id]);
  });
});
