import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();
const REFUSED = { message: { file_template_project_id: ['must be a project in the group'] } };

describe('the project of the file templates of a group', () => {
  it('is a project in the group or below it, and can be removed', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const below = await app().make.group({ parent_id: group.id }, owner);
    const client = app().as(owner);
    for (const namespace of [group, below]) {
      const project = await app().make.project({ namespace_id: namespace.id }, owner);
      const set = await client.put(`/groups/${group.id}`, { file_template_project_id: project.id });
      expect([set.status, set.body.file_template_project_id]).toEqual([200, project.id]);
    }
    const removed = await client.put(`/groups/${group.id}`, { file_template_project_id: null });
    expect([removed.status, removed.body.file_template_project_id]).toEqual([200, null]);
  });

  it('is refused alike if it is elsewhere, hidden from the caller or nowhere, and then nothing changes', async () => {
    const owner = await app().make.user();
    const other = await app().make.user();
    const group = await app().make.group({ visibility: 'public' }, owner);
    const parent = await app().make.group({}, owner);
    const child = await app().make.group({ parent_id: parent.id }, owner);
    const elsewhere = [
      await app().make.project({ visibility: 'public' }, owner),
      await app().make.project({}, other),
      await app().make.project({ namespace_id: parent.id }, owner),
    ];
    const client = app().as(owner);
    for (const [target, id] of [
      [group, elsewhere[0]?.id],
      [group, elsewhere[1]?.id],
      [child, elsewhere[2]?.id],
      [group, 99_999_999],
    ] as const) {
      const answer = await client.put(`/groups/${target.id}`, { file_template_project_id: id, description: 'changed' });
      expect([answer.status, answer.body]).toEqual([400, REFUSED]);
      expect((await client.get(`/groups/${target.id}`)).body).toMatchObject({
        file_template_project_id: null,
        description: expect.not.stringContaining('changed'),
      });
    }
    const deleted = await app().make.project({ namespace_id: group.id }, owner);
    await app()
      .hub.services.db.updateTable('projects')
      .set({ pending_delete: true })
      .where('id', '=', deleted.id)
      .execute();
    expect((await client.put(`/groups/${group.id}`, { file_template_project_id: deleted.id })).body).toEqual(REFUSED);
  });

  it('is checked over GraphQL too', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const inside = await app().make.project({ namespace_id: group.id }, owner);
    const outside = await app().make.project({}, owner);
    const set = async (id: number) =>
      (
        await app()
          .as(owner)
          .graphql(
            `mutation ($input: GroupUpdateInput!) { groupUpdate(input: $input) { group { fileTemplateProjectId } errors } }`,
            { input: { fullPath: group.full_path, fileTemplateProjectId: `gid://gitlab/Project/${id}` } },
          )
      ).data.groupUpdate;
    expect((await set(outside.id)).errors).toEqual(['File template project id must be a project in the group']);
    expect(await set(inside.id)).toEqual({
      group: { fileTemplateProjectId: `gid://gitlab/Project/${inside.id}` },
      errors: [],
    });
  });
});
