import { createClient } from 'graphql-sse';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { audiencesOf } from '#domains/events/audience.ts';
import { type Actor, anonymous } from '#platform/context.ts';
import { encodeCursor } from '#platform/cursor.ts';
import { findEvents } from '../groups/find-events.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';

// A subscription resumed with an old cursor shows only events that the viewer could read then and may read now.

const app = useApp();

interface Told {
  readonly kind: string;
  // biome-ignore lint/suspicious/noExplicitAny: payloads have any shape, and a wrong one fails the test.
  readonly payload: any;
}

const QUERY = `subscription ($scope: EventScope, $after: String) { events(scope: $scope, after: $after) { kind payload } }`;

let ends = 0;

/** Reads all events of a project through a subscription resumed with the oldest cursor. */
const past = async (who: TestUser | null, project: TestProject, by: TestUser): Promise<Told[]> => {
  ends += 1;
  const { body } = await app().as(by).get(`/projects/${project.id}`);
  const description = `the end ${ends}`;
  expect((await app().as(by).put(`/projects/${project.id}`, { description })).status).toBe(200);
  return read(
    who,
    { projectPath: body.path_with_namespace },
    (told) => told.payload.changes?.description?.current === description,
  );
};

const read = async (
  who: TestUser | null,
  scope: Readonly<Record<string, string>>,
  isEnd: (told: Told) => boolean,
): Promise<Told[]> => {
  const token = who && (await app().tokenOf(who));
  const client = createClient({
    url: `${app().url}/api/graphql`,
    retryAttempts: 0,
    headers: token ? { 'PRIVATE-TOKEN': token } : {},
  });
  const seen: Told[] = [];
  try {
    for await (const { data, errors } of client.iterate<{ events: Told }>({
      query: QUERY,
      variables: { scope, after: encodeCursor([0]) },
    })) {
      if (!data) throw new Error(JSON.stringify(errors));
      if (isEnd(data.events)) return seen;
      if (!isMark(data.events)) seen.push(data.events);
    }
    throw new Error('the subscription ended');
  } finally {
    client.dispose();
  }
};

/** Whether the event marks the end of an earlier read. */
const isMark = ({ payload }: Told) => /^the end \d/.test(payload.changes?.description?.current ?? '');

const kinds = (told: readonly Told[]) => told.map(({ kind }) => kind);
const actorOf = ({ id, username }: TestUser): Actor => ({ ...anonymous, userId: id, username });

/** Returns the kinds of the subject's events that the actor may read, and checks that live and history agree. */
const kindsSeen = async (actor: Actor, type: string, id: number): Promise<string[]> => {
  const { audienceOf, eventsSeenBy } = audiencesOf(eventDefinitions);
  const events = await findEvents(app(), type, id);
  const seen = await eventsSeenBy(app().context(), actor, events);
  for (const [index, event] of events.entries())
    expect((await audienceOf(app().context(), [anonymous, actor], event)).has(1)).toBe(seen.has(index));
  return events.filter((_, index) => seen.has(index)).map(({ kind }) => kind);
};

const person = () => app().make.user();
const ok = async (answer: Promise<{ readonly status: number; readonly body: unknown }>) => {
  const { status, body } = await answer;
  if (status >= 300) throw new Error(`${status} ${JSON.stringify(body)}`);
};

describe('a project that was private', () => {
  it('shows strangers nothing from that time, and its former members everything', async () => {
    const [owner, reporter, guest, stranger] = [await person(), await person(), await person(), await person()];
    const { make, as } = app();
    const vault = await make.group({ visibility: 'private', path: 'vault-one', name: 'vault-one' }, owner);
    const open = await make.group({ visibility: 'public' }, owner);
    const project = await make.project(
      { namespace_id: vault.id, name: 'Ledger', path: 'ledger', visibility: 'private' },
      owner,
    );
    await make.projectMember(project, reporter, 20);
    await make.projectMember(project, guest, 10);
    const at = `/projects/${project.id}`;
    const client = as(owner);
    await ok(client.post(`${at}/issues`, { title: 'The merger', description: 'with the rival' }));
    await ok(client.post(`${at}/labels`, { name: 'hush', color: '#ff0000' }));
    await ok(client.put(at, { description: 'of bribes' }));
    await ok(
      client.post(`${at}/repository/commits`, {
        branch: 'main',
        commit_message: 'Hide the gold',
        actions: [{ action: 'create', file_path: 'bribes.txt', content: 'x' }],
      }),
    );
    await ok(client.put(`${at}/transfer`, { namespace: open.id }));
    await ok(client.put(at, { visibility: 'public', name: 'Charity', path: 'charity', description: 'of gifts' }));
    await ok(client.post(`${at}/issues`, { title: 'Open to all' }));

    for (const who of [stranger, null]) {
      const told = await past(who, project, owner);
      expect(kinds(told)).toEqual(['project.updated', 'issue.opened']);
      expect(told[0]?.payload.changes.visibility_level).toEqual({ previous: 0, current: 20 });
      expect(told[0]?.payload.changes.name).toEqual({ current: 'Charity' });
      expect(JSON.stringify(told)).not.toMatch(/vault|edger|merger|rival|hush|bribes|gold/);
    }
    const inside = await past(reporter, project, owner);
    expect(JSON.stringify(inside)).toMatch(/vault-one\/ledger.*merger.*hush.*bribes.*gold/s);
    // Guests of a private project cannot read its code, even if everyone can read it later.
    const told = await past(guest, project, owner);
    expect(JSON.stringify(told)).toMatch(/vault-one\/ledger.*merger/s);
    expect(kinds(told)).not.toContain('push.received');
  });

  it('shows nothing of its former group to the members of its new group', async () => {
    const [owner, newcomer, direct] = [await person(), await person(), await person()];
    const { make, as } = app();
    const vault = await make.group({ visibility: 'private', path: 'vault-two', name: 'vault-two' }, owner);
    const other = await make.group({ visibility: 'private' }, owner);
    await make.groupMember(other, newcomer, 50);
    const project = await make.project({ namespace_id: vault.id, visibility: 'private' }, owner);
    await make.projectMember(project, direct, 10);
    await ok(as(owner).post(`/projects/${project.id}/issues`, { title: 'The merger' }));
    await ok(as(owner).put(`/projects/${project.id}/transfer`, { namespace: other.id }));
    const told = await past(newcomer, project, owner);
    expect(kinds(told)).toEqual(['project.transferred']);
    expect(told[0]?.payload.changes).toEqual({ full_path: { current: expect.stringContaining(other.full_path) } });
    expect(JSON.stringify(told)).not.toMatch(/vault|merger/);
    for (const who of [owner, direct]) expect(JSON.stringify(await past(who, project, owner))).toMatch(/vault.*merger/);
  });

  it('shows its former path to members who could see it there if it moves up within its group', async () => {
    const [owner, member] = [await person(), await person()];
    const { make, as } = app();
    const top = await make.group({ visibility: 'private' }, owner);
    const below = await make.group({ visibility: 'private', parent_id: top.id }, owner);
    await make.groupMember(top, member, 20);
    const project = await make.project({ namespace_id: below.id, visibility: 'private' }, owner);
    await ok(as(owner).put(`/projects/${project.id}/transfer`, { namespace: top.id }));
    const told = await past(member, project, owner);
    expect(kinds(told)).toEqual(['project.created', 'project.transferred']);
    expect(told[1]?.payload.changes.full_path.previous).toBe(project.path_with_namespace);
  });
});

describe('a group that was private or had another parent', () => {
  it('does not show strangers its former name, even if name and visibility change together', async () => {
    const [owner, member, stranger] = [await person(), await person(), await person()];
    const { make, as } = app();
    const group = await make.group({ visibility: 'private', name: 'Raid', path: 'raid-of-summer' }, owner);
    await make.groupMember(group, member, 10);
    const at = `/groups/${group.id}`;
    await ok(as(owner).put(at, { description: 'we take all' }));
    await ok(as(owner).put(at, { visibility: 'public', name: 'Aid', path: 'aid-of-summer', description: 'we give' }));
    await ok(as(owner).put(at, { description: 'the end' }));
    const isEnd = ({ payload }: Told) => payload.changes?.description?.current === 'the end';
    const told = await read(stranger, { groupPath: 'aid-of-summer' }, isEnd);
    expect(kinds(told)).toEqual(['group.updated']);
    expect(told[0]?.payload.changes.visibility).toEqual({ previous: 'private', current: 'public' });
    expect(JSON.stringify(told)).not.toMatch(/raid|take/i);
    expect(JSON.stringify(await read(member, { groupPath: 'aid-of-summer' }, isEnd))).toMatch(/raid-of-summer.*take/s);
  });

  it('shows nothing of its former parent to the members of the new one, and neither do its projects', async () => {
    const [owner, newcomer, direct] = [await person(), await person(), await person()];
    const { make, as } = app();
    const vault = await make.group({ visibility: 'private', path: 'vault-three', name: 'vault-three' }, owner);
    const other = await make.group({ visibility: 'private' }, owner);
    await make.groupMember(other, newcomer, 50);
    const team = await make.group({ visibility: 'private', parent_id: vault.id }, owner);
    await make.groupMember(team, direct, 20);
    const project = await make.project({ namespace_id: team.id, visibility: 'private' }, owner);
    await ok(as(owner).post(`/projects/${project.id}/issues`, { title: 'The merger' }));
    await ok(as(owner).post(`/groups/${team.id}/transfer`, { group_id: other.id }));
    expect(await kindsSeen(actorOf(newcomer), 'Group', team.id)).toEqual(['group.updated']);
    const moved = (await findEvents(app(), 'Group', team.id)).at(-1);
    expect(JSON.stringify(moved?.payload)).not.toContain('vault');
    expect(await past(newcomer, project, owner)).toEqual([]);
    for (const who of [owner, direct]) {
      expect(await kindsSeen(actorOf(who), 'Group', team.id)).toEqual(['group.created', 'group.updated']);
      expect(JSON.stringify(await past(who, project, owner))).toMatch(/vault-three.*merger/s);
    }
  });

  it('shows callers from excluded networks only the events that strangers see, even for a project that moved in later', async () => {
    const [owner, member] = [await person(), await person()];
    const { make, as } = app();
    const before = await make.group({ visibility: 'private' }, owner);
    const guarded = await make.group({ visibility: 'private' }, owner);
    for (const group of [before, guarded]) await make.groupMember(group, member, 20);
    const project = await make.project({ namespace_id: before.id, visibility: 'private' }, owner);
    await ok(as(owner).put(`/projects/${project.id}/transfer`, { namespace: guarded.id }));
    expect(await kindsSeen(actorOf(member), 'Project', project.id)).toEqual(['project.created', 'project.transferred']);
    for (const closed of [before, guarded])
      expect(await kindsSeen({ ...actorOf(member), closedGroups: [closed.id] }, 'Project', project.id)).toEqual(
        closed === before ? ['project.transferred'] : [],
      );
  });
});

describe('an issue', () => {
  const scene = async () => {
    const people = [await person(), await person(), await person(), await person()] as const;
    const [owner, author, planner, stranger] = people;
    const project = await app().make.project({ visibility: 'public' }, owner);
    await app().make.projectMember(project, planner, 15);
    return { owner, author, planner, stranger, project, at: `/projects/${project.id}/issues` };
  };

  it('shows the title it had while confidential only to those who could read it then', async () => {
    const { owner, author, planner, stranger, project, at } = await scene();
    const { body } = await app().as(author).post(at, { title: 'A hole in the wall', confidential: true });
    const client = app().as(owner);
    await ok(client.post(`${at}/${body.iid}/notes`, { body: 'Behind the picture' }));
    await ok(client.put(`${at}/${body.iid}`, { title: 'A hole in the roof' }));
    await ok(client.put(`${at}/${body.iid}`, { title: 'Repairs', confidential: false }));
    for (const who of [stranger, null]) {
      const told = (await past(who, project, owner)).filter(({ kind }) => !kind.startsWith('project.'));
      expect(kinds(told)).toEqual(['issue.updated']);
      expect(told[0]?.payload.changes).toMatchObject({
        confidential: { previous: true, current: false },
        title: { current: 'Repairs' },
      });
      expect(JSON.stringify(told)).not.toMatch(/hole|picture/);
    }
    for (const who of [owner, author, planner])
      expect(JSON.stringify(await past(who, project, owner))).toMatch(/hole in the wall.*picture.*hole in the roof/s);
  });

  it('shows none of its history to those who cannot read it once it is confidential', async () => {
    const { owner, author, planner, stranger, project, at } = await scene();
    const { body } = await app().as(author).post(at, { title: 'A hole in the wall' });
    const client = app().as(owner);
    const note = await client.post(`${at}/${body.iid}/notes`, { body: 'Behind the picture' });
    await ok(client.post(`${at}/${body.iid}/award_emoji`, { name: 'eyes' }));
    await ok(client.post(`${at}/${body.iid}/notes/${note.body.id}/award_emoji`, { name: 'eyes' }));
    const kindsOf = async (who: TestUser) =>
      kinds(await past(who, project, owner)).filter((kind) => !kind.startsWith('project.'));
    const all = ['issue.opened', 'note.created', 'award_emoji.created', 'award_emoji.created'];
    expect(await kindsOf(stranger)).toEqual(all);
    await ok(client.put(`${at}/${body.iid}`, { confidential: true }));
    expect(await kindsOf(stranger)).toEqual([]);
    for (const who of [owner, author, planner]) expect(await kindsOf(who)).toEqual([...all, 'issue.updated']);
    // Assigning and deleting the issue reveals nothing to strangers either.
    await ok(client.put(`${at}/${body.iid}`, { assignee_ids: [planner.id] }));
    await ok(client.delete(`${at}/${body.iid}`));
    expect(await kindsOf(stranger)).toEqual([]);
    expect(await kindsOf(planner)).toEqual([...all, 'issue.updated', 'issue.updated', 'issue.deleted']);
  });

  it('shows internal comments only to Reporters, both live and in its history', async () => {
    const { owner, planner, project, at } = await scene();
    const reporter = await person();
    await app().make.projectMember(project, reporter, 20);
    const { body } = await app().as(owner).post(at, { title: 'Open to all' });
    const note = await app().as(owner).post(`${at}/${body.iid}/notes`, { body: 'Between us', internal: true });
    await ok(app().as(owner).post(`${at}/${body.iid}/notes/${note.body.id}/award_emoji`, { name: 'eyes' }));
    expect(await kindsSeen(actorOf(reporter), 'Note', note.body.id)).toEqual(['note.created']);
    expect(await kindsSeen(actorOf(planner), 'Note', note.body.id)).toEqual([]);
    expect(JSON.stringify(await past(planner, project, owner))).not.toMatch(/Between us|award_emoji/);
    expect(kinds(await past(reporter, project, owner))).toContain('award_emoji.created');
  });
});

describe('a project feature that was closed later', () => {
  const PARTS: readonly (readonly [string, Record<string, string>, readonly string[]])[] = [
    ['issues', { issues_access_level: 'private' }, ['issue.opened', 'note.created']],
    [
      'repository',
      { repository_access_level: 'private', merge_requests_access_level: 'private', builds_access_level: 'private' },
      ['push.received', 'repository.updated', 'release.created', 'note.created', 'note.created', 'pipeline.created'],
    ],
    ['merge requests', { merge_requests_access_level: 'private' }, ['note.created']],
    ['builds', { builds_access_level: 'private' }, ['pipeline.created', 'commit_status.reported']],
    [
      'planning',
      { issues_access_level: 'private', merge_requests_access_level: 'private' },
      ['label.created', 'milestone.created', 'note.created', 'note.created'],
    ],
  ];

  it.each(PARTS)('(%s) is shown to members, and no longer to strangers', async (_name, levels, expected) => {
    const [owner, member, stranger] = [await person(), await person(), await person()];
    const { make, as, hub } = app();
    const project = await make.project({ visibility: 'public' }, owner);
    await make.projectMember(project, member, 20);
    const at = `/projects/${project.id}`;
    const client = as(owner);
    const commit = await client.post(`${at}/repository/commits`, {
      branch: 'main',
      commit_message: 'Found the gold',
      actions: [{ action: 'create', file_path: 'map.txt', content: 'x' }],
    });
    const { body: issue } = await client.post(`${at}/issues`, { title: 'Dig' });
    await ok(client.post(`${at}/issues/${issue.iid}/notes`, { body: 'Here' }));
    await hub.services.db
      .insertInto('merge_requests')
      .values({ project_id: project.id, iid: 1, title: 'Dug', source_branch: 'a', target_branch: 'main' })
      .execute();
    await ok(client.post(`${at}/merge_requests/1/notes`, { body: 'There' }));
    await ok(client.post(`${at}/repository/commits/${commit.body.id}/comments`, { note: 'Everywhere' }));
    await ok(client.post(`${at}/statuses/${commit.body.id}`, { state: 'success' }));
    await ok(client.post(`${at}/releases`, { tag_name: 'v1', ref: 'main', description: 'Gold' }));
    await ok(client.post(`${at}/labels`, { name: 'gold', color: '#ff0000' }));
    await ok(client.post(`${at}/milestones`, { title: 'Rich' }));

    const before = kinds(await past(stranger, project, owner));
    expect(before).toEqual(expect.arrayContaining([...expected]));
    await ok(client.put(at, levels));
    const after = kinds(await past(stranger, project, owner));
    // Comments are on issues, merge requests and commits. Only those of the closed feature disappear.
    const notes = (all: readonly string[]) => all.filter((kind) => kind === 'note.created').length;
    expect(notes(before) - notes(after)).toBe(notes(expected));
    const closed = expected.filter((kind) => kind !== 'note.created');
    for (const kind of closed) expect(after).not.toContain(kind);
    expect(kinds(await past(member, project, owner))).toEqual(expect.arrayContaining(before));

    const disabled = Object.fromEntries(Object.keys(levels).map((part) => [part, 'disabled']));
    await ok(client.put(at, disabled));
    const nobody = kinds(await past(member, project, owner));
    for (const kind of closed) expect(nobody).not.toContain(kind);
  });
});

describe('other events', () => {
  it('name a fork that became less visible only to those who can see it', async () => {
    const [owner, forker, stranger] = [await person(), await person(), await person()];
    const { make, as } = app();
    const project = await make.project({ visibility: 'public', initialize_with_readme: true }, owner);
    const { body: fork } = await as(forker).post(`/projects/${project.id}/fork`, { name: 'Rebels', path: 'rebels' });
    await app().settle();
    expect(kinds(await past(stranger, project, owner))).toContain('project.forked');
    await ok(as(forker).put(`/projects/${fork.id}`, { visibility: 'private' }));
    expect(JSON.stringify(await past(stranger, project, owner))).not.toMatch(/project.forked|rebels/);
    expect(kinds(await past(forker, project, owner))).toContain('project.forked');
  });

  it('are for members only, without former values, if they have no recorded visibility', async () => {
    const [owner, member, stranger] = [await person(), await person(), await person()];
    const project = await app().make.project({ visibility: 'public' }, owner);
    await app().make.projectMember(project, member, 10);
    await ok(app().as(owner).put(`/projects/${project.id}`, { name: 'Newer' }));
    expect(kinds(await past(stranger, project, owner))).toEqual(['project.created', 'project.updated']);
    await sql`update events set visibility_level = null where project_id = ${project.id}`.execute(
      app().hub.services.db,
    );
    expect(await past(stranger, project, owner)).toEqual([]);
    const told = await past(member, project, owner);
    expect(kinds(told).slice(0, 2)).toEqual(['project.created', 'project.updated']);
    expect(told[1]?.payload.changes).toEqual({ name: { current: 'Newer' } });
  });

  it('are for administrators only if their kind is no longer defined', async () => {
    const owner = await person();
    const project = await app().make.project({ visibility: 'public' }, owner);
    await app().settle();
    await sql`update events set kind = 'project.praised' where project_id = ${project.id}`.execute(
      app().hub.services.db,
    );
    expect(await kindsSeen(actorOf(owner), 'Project', project.id)).toEqual([]);
    expect(await kindsSeen({ ...actorOf(app().root), isAdmin: true }, 'Project', project.id)).toEqual([
      'project.praised',
    ]);
  });
});
