import { expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { readTree } from './archive.ts';
import { downloadExport, importArchive } from './support.ts';

const app = useApp();

interface Line {
  readonly access_level: number;
  readonly source_type: string;
  readonly user: { readonly username: string } | null;
}

const linesOf = async (user: TestUser, projectId: number) => {
  const { bytes } = await downloadExport(app(), user, projectId);
  const { project_members } = await readTree(bytes);
  const lines = Array.isArray(project_members) ? (project_members as readonly Line[]) : [];
  return {
    bytes,
    lines: lines.map(({ source_type, access_level, user: of }) => [of?.username, access_level, source_type]),
  };
};
const membersOf = async (projectId: number) =>
  (await app().as(app().root).get(`/projects/${projectId}/members`)).body.map(
    ({ username, access_level }: { readonly username: string; readonly access_level: number }) => [
      username,
      access_level,
    ],
  );

it('the members of the groups above a project come along, and stay the authors of what they wrote', async () => {
  const { root, as, make } = app();
  const [owner, lead, member, twice, direct] = await make.users(
    ['owner', 'lead', 'member', 'twice', 'direct'].map((name) => ({
      username: `${name}-along`,
      email: `${name}@along.example.com`,
      public_email: `${name}@along.example.com`,
    })),
  );
  if (!owner || !lead || !member || !twice || !direct) throw new Error('users are missing');
  const group = await make.group({}, owner);
  const inner = await make.group({ parent_id: group.id }, owner);
  const project = await make.project({ namespace_id: inner.id }, owner);
  await make.groupMember(group, member, 20);
  await make.groupMember(group, twice, 20);
  await make.groupMember(inner, twice, 30);
  await make.groupMember(group, direct, 20);
  await make.projectMember(project, direct, 30);
  await make.projectMember(project, lead, 40);
  const said = await as(member).post(`/projects/${project.id}/issues`, { title: 'Seen by a member of the group' });
  expect(said.status).toBe(201);

  // A Maintainer of the project alone takes only its own members along.
  const own = [
    ['direct-along', 30, 'Project'],
    ['lead-along', 40, 'Project'],
  ];
  expect((await linesOf(lead, project.id)).lines.sort()).toEqual(own);
  const { bytes, lines } = await linesOf(owner, project.id);
  const inherited = [
    ['member-along', 20, 'Namespace'],
    ['owner-along', 50, 'Namespace'],
    ['twice-along', 30, 'Namespace'],
  ];
  expect(lines.sort()).toEqual([...own, ...inherited].sort());

  const copy = (await importArchive(app(), root, bytes, { path: 'along' })).body;
  await app().settle();
  expect((await as(root).get(`/projects/${copy.id}/issues/1`)).body.author.username).toBe('member-along');
  expect((await membersOf(copy.id)).sort()).toEqual([
    ['direct-along', 30],
    ['lead-along', 40],
    ['member-along', 20],
    ['owner-along', 40],
    ['root', 50],
    ['twice-along', 30],
  ]);

  // People who have the role already by a group get no second membership.
  const beside = (await importArchive(app(), root, bytes, { path: 'beside', namespace: group.full_path })).body;
  await app().settle();
  expect((await membersOf(beside.id)).sort()).toEqual([
    ['direct-along', 30],
    ['lead-along', 40],
    ['root', 40],
    ['twice-along', 30],
  ]);
});

it('the owner of a personal namespace stays the author of what they wrote', async () => {
  const { root, as, make } = app();
  const owner = await make.user({ username: 'alone', email: 'alone@example.com', public_email: 'alone@example.com' });
  const project = await make.project({}, owner);
  await as(owner).post(`/projects/${project.id}/issues`, { title: 'Mine' });
  const { bytes, lines } = await linesOf(owner, project.id);
  expect(lines).toEqual([['alone', 50, 'Namespace']]);
  const copy = (await importArchive(app(), root, bytes, { path: 'of-alone' })).body;
  await app().settle();
  expect((await as(root).get(`/projects/${copy.id}/import`)).body).toMatchObject({ import_status: 'finished' });
  expect((await as(root).get(`/projects/${copy.id}/issues/1`)).body.author.username).toBe('alone');
});
