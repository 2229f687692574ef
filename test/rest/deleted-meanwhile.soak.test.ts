import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Answer } from '../support/client.ts';
import { untilBlocked } from '../support/locks.ts';

const app = useApp();

type Scene = Awaited<ReturnType<typeof makeScene>>;
/** What is deleted, and the request that names it. */
interface Deleted<T> {
  readonly table: string;
  readonly id: number;
  ask(): Promise<T>;
}
type Prepare = (scene: Scene) => Promise<Deleted<Answer>>;

const newUser = async () => ({ table: 'users', id: (await app().make.user()).id });
const newMember = async ({ project }: Scene) => {
  const user = await app().make.user();
  await app().make.projectMember(project, user, 30);
  return { table: 'users', id: user.id };
};
const newGroup = async (scene: Scene) => ({
  table: 'namespaces',
  id: (await app().make.group({ visibility: 'public' }, scene.people.owner)).id,
});
const newIssue = async ({ owner, path }: Scene) => {
  const { body } = await owner.post(`${path}/issues`, { title: 'Goes' });
  return { table: 'issues', id: body.id, at: `${path}/issues/${body.iid}` };
};

/** Sends the request while a transaction that is not committed has deleted the row. Returns the answer after the commit. */
const whileDeleting = async <T>({ table, id, ask }: Deleted<T>): Promise<T> => {
  await app().settle();
  const { answer } = await app()
    .hub.services.db.transaction()
    .execute(async (trx) => {
      await sql`delete from ${sql.table(table)} where id = ${id}`.execute(trx);
      const answer = ask();
      await untilBlocked(app());
      return { answer };
    });
  return answer;
};

it.each<[string, number, Prepare]>([
  [
    'a label of a new issue',
    201,
    async ({ owner, path }) => {
      const { id } = (await owner.post(`${path}/labels`, { name: 'goes', color: '#ff0000' })).body;
      return { table: 'labels', id, ask: () => owner.post(`${path}/issues`, { title: 'New', labels: 'goes' }) };
    },
  ],
  [
    'the milestone of a new issue',
    400,
    async ({ owner, path }) => {
      const { id } = (await owner.post(`${path}/milestones`, { title: 'Goes' })).body;
      return { table: 'milestones', id, ask: () => owner.post(`${path}/issues`, { title: 'New', milestone_id: id }) };
    },
  ],
  [
    'an assignee',
    400,
    async (scene) => {
      const user = await newMember(scene);
      const issue = { title: 'New', assignee_ids: [user.id] };
      return { ...user, ask: () => scene.owner.post(`${scene.path}/issues`, issue) };
    },
  ],
  [
    'a new member',
    404,
    async ({ owner, path }) => {
      const user = await newUser();
      return { ...user, ask: () => owner.post(`${path}/members`, { user_id: user.id, access_level: 30 }) };
    },
  ],
  [
    'an issue that gets a comment',
    409,
    async (scene) => {
      const { at, ...issue } = await newIssue(scene);
      return { ...issue, ask: () => scene.owner.post(`${at}/notes`, { body: 'Hello' }) };
    },
  ],
  [
    'an issue that gets an emoji',
    409,
    async (scene) => {
      const { at, ...issue } = await newIssue(scene);
      return { ...issue, ask: () => scene.owner.post(`${at}/award_emoji`, { name: 'thumbsup' }) };
    },
  ],
  [
    'an issue that is subscribed to',
    409,
    async (scene) => {
      const { at, ...issue } = await newIssue(scene);
      return { ...issue, ask: () => scene.maintainer.post(`${at}/subscribe`) };
    },
  ],
  [
    'a group that a project is shared with',
    409,
    async (scene) => {
      const group = await newGroup(scene);
      return { ...group, ask: () => scene.owner.post(`${scene.path}/share`, { group_id: group.id, group_access: 30 }) };
    },
  ],
  [
    'a user who gets a token',
    409,
    async () => {
      const user = await newUser();
      const ask = () =>
        app()
          .as(app().root)
          .post(`/users/${user.id}/personal_access_tokens`, { name: 'New', scopes: ['api'] });
      return { ...user, ask };
    },
  ],
  [
    'a user who is followed',
    409,
    async ({ owner }) => {
      const user = await newUser();
      return { ...user, ask: () => owner.post(`/users/${user.id}/follow`) };
    },
  ],
  [
    'a project that gets a star',
    409,
    async ({ owner, people }) => {
      const { id } = await app().make.project({}, people.owner);
      return { table: 'projects', id, ask: () => owner.post(`/projects/${id}/star`) };
    },
  ],
  [
    'a project that gets an alias',
    409,
    async ({ people }) => {
      const { id } = await app().make.project({}, people.owner);
      return {
        table: 'projects',
        id,
        ask: () => app().as(app().root).post('/project_aliases', { project_id: id, name: 'goes' }),
      };
    },
  ],
  [
    'a user of a protected branch',
    422,
    async (scene) => {
      const user = await newMember(scene);
      const branch = { name: 'kept', allowed_to_push: [{ user_id: user.id }] };
      return { ...user, ask: () => scene.owner.post(`${scene.path}/protected_branches`, branch) };
    },
  ],
  [
    'an approver',
    400,
    async (scene) => {
      const user = await newMember(scene);
      const rule = { name: 'Rule', approvals_required: 1, user_ids: [user.id] };
      return { ...user, ask: () => scene.owner.post(`${scene.path}/approval_rules`, rule) };
    },
  ],
  [
    'a project that gets an upload',
    404,
    async ({ owner, people }) => {
      const { id } = await app().make.project({}, people.owner);
      const form = new FormData();
      form.set('file', new File(['hello'], 'note.txt', { type: 'text/plain' }));
      return { table: 'projects', id, ask: () => owner.post(`/projects/${id}/uploads`, form) };
    },
  ],
  [
    'a project that gets a variable',
    404,
    async ({ owner, people }) => {
      const { id } = await app().make.project({}, people.owner);
      return { table: 'projects', id, ask: () => owner.post(`/projects/${id}/variables`, { key: 'A', value: '1' }) };
    },
  ],
  [
    'a project that gets an environment',
    409,
    async ({ owner, people }) => {
      const { id } = await app().make.project({}, people.owner);
      return { table: 'projects', id, ask: () => owner.post(`/projects/${id}/environments`, { name: 'test' }) };
    },
  ],
  [
    'a project that gets a custom attribute',
    404,
    async ({ people }) => {
      const { id } = await app().make.project({}, people.owner);
      return {
        table: 'projects',
        id,
        ask: () => app().as(app().root).put(`/projects/${id}/custom_attributes/k`, { value: 'v' }),
      };
    },
  ],
  [
    'a project that is forked',
    404,
    async ({ people, maintainer }) => {
      const { id } = await app().make.project({ visibility: 'public' }, people.owner);
      return { table: 'projects', id, ask: () => maintainer.post(`/projects/${id}/fork`) };
    },
  ],
  [
    'a project that gets an error tracking key',
    404,
    async ({ owner, people }) => {
      const { id } = await app().make.project({}, people.owner);
      return { table: 'projects', id, ask: () => owner.post(`/projects/${id}/error_tracking/client_keys`, {}) };
    },
  ],
  [
    'a project that is exported',
    409,
    async ({ owner, people }) => {
      const { id } = await app().make.project({}, people.owner);
      return { table: 'projects', id, ask: () => owner.post(`/projects/${id}/export`) };
    },
  ],
])('answers a request whose subject is deleted at the same moment: %s', async (_what, expected, prepare) => {
  const { status, body } = await whileDeleting(await prepare(await makeScene(app())));
  expect([status, JSON.stringify(body)]).toEqual([expected, expect.any(String)]);
  if (status === 409) expect(body.message).toContain('was deleted at the same moment');
});

it('answers a mutation whose subject is deleted at the same moment', async () => {
  const scene = await makeScene(app());
  const { at: _at, ...issue } = await newIssue(scene);
  const noteableId = `gid://gitlab/Issue/${issue.id}`;
  const answer = await whileDeleting({
    ...issue,
    ask: () =>
      scene.owner.graphql(
        'mutation ($noteableId: NoteableID!) { createNote(input: { noteableId: $noteableId, body: "Hello" }) { errors } }',
        {
          noteableId,
        },
      ),
  });
  expect(answer.errors).toMatchObject([{ extensions: { code: 'CONFLICT' } }]);
});
