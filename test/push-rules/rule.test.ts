import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';

const app = useApp();

const MAINTAINER = 40;
const DEVELOPER = 30;

const NOTHING = {
  commit_committer_check: false,
  commit_committer_name_check: false,
  reject_unsigned_commits: false,
  reject_non_dco_commits: false,
  commit_message_regex: '',
  commit_message_negative_regex: '',
  branch_name_regex: '',
  author_email_regex: '',
  file_name_regex: '',
  deny_delete_tag: false,
  member_check: false,
  prevent_secrets: false,
  max_file_size: 0,
};
const ALL = {
  commit_committer_check: true,
  commit_committer_name_check: true,
  reject_unsigned_commits: true,
  reject_non_dco_commits: true,
  commit_message_regex: '^Fixes',
  commit_message_negative_regex: 'wip',
  branch_name_regex: '^(feature|fix)/',
  author_email_regex: '@example\\.com$',
  file_name_regex: '\\.exe$',
  deny_delete_tag: true,
  member_check: true,
  prevent_secrets: true,
  max_file_size: 10,
};

const places = {
  group: async () => {
    const owner = await app().make.user();
    const group = await app().make.group({ visibility: 'private' }, owner);
    const member = async (level: number): Promise<TestUser> => {
      const user = await app().make.user();
      await app().make.groupMember(group, user, level);
      return user;
    };
    return { id: group.id, full_path: group.full_path, path: `/groups/${group.id}/push_rule`, owner, member };
  },
  project: async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'private' }, owner);
    const member = async (level: number): Promise<TestUser> => {
      const user = await app().make.user();
      await app().make.projectMember(project, user, level);
      return user;
    };
    const { id, path_with_namespace: full_path } = project;
    return { id, full_path, path: `/projects/${id}/push_rule`, owner, member };
  },
};

const eventsOf = async (ruleId: number) => {
  const { rows } = await app().hub.services.pool.query(
    "select kind, actor_id, min_access_level, namespace_ids, project_id, payload from events where subject_type = 'PushRule' and subject_id = $1 order by id",
    [ruleId],
  );
  return rows;
};

describe.each(['group', 'project'] as const)('the push rule of a %s', (kind) => {
  it('is set, read, changed and deleted, with events for its administrators', async () => {
    const { id, path, owner } = await places[kind]();
    const client = app().as(owner);
    const none =
      kind === 'group' ? { status: 404, body: { message: '404 Push Rule Not Found' } } : { status: 200, body: null };
    expect(await client.get(path)).toMatchObject(none);
    expect((await client.put(path, { max_file_size: 1 })).status).toBe(404);
    expect((await client.delete(path)).status).toBe(404);

    const created = await client.post(path, { commit_message_regex: '^Fixes' });
    expect(created).toMatchObject({ status: 201, body: { ...NOTHING, commit_message_regex: '^Fixes' } });
    expect(created.body.created_at).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
    expect(created.body.project_id).toBe(kind === 'project' ? id : undefined);
    const { id: ruleId } = created.body;
    expect(await client.post(path, {})).toMatchObject({ status: 422 });

    expect(await client.put(path, ALL)).toMatchObject({ status: 200, body: { id: ruleId, ...ALL } });
    const cleared = { commit_message_regex: '', file_name_regex: null, max_file_size: 0 };
    expect((await client.put(path, cleared)).body).toMatchObject({
      ...ALL,
      commit_message_regex: '',
      file_name_regex: '',
      max_file_size: 0,
    });
    expect((await client.put(path, { max_file_size: 0 })).status).toBe(200);
    expect((await client.get(path)).body).toMatchObject({ ...ALL, ...cleared, file_name_regex: '' });

    expect((await client.delete(path)).status).toBe(204);
    expect(await client.get(path)).toMatchObject(none);
    expect(await client.post(path, ALL)).toMatchObject({ status: 201, body: ALL });

    const events = await eventsOf(ruleId);
    expect(events.map((event) => event.kind)).toEqual([
      'push_rule.created',
      'push_rule.updated',
      'push_rule.updated',
      'push_rule.deleted',
    ]);
    for (const event of events) {
      expect(event).toMatchObject({
        actor_id: owner.id,
        min_access_level: kind === 'group' ? 50 : 40,
        project_id: kind === 'project' ? id : null,
        payload: { id: ruleId },
      });
      expect(JSON.stringify(event.payload)).not.toContain('Fixes');
    }
    expect(events[2].payload.changed.sort()).toEqual(['commit_message_regex', 'file_name_regex', 'max_file_size']);
  });

  it('refuses invalid attributes and names each, and keeps the old rule', async () => {
    const { path, owner } = await places[kind]();
    const client = app().as(owner);
    await client.post(path, { commit_message_regex: 'kept' });
    const patterns = [
      'commit_message_regex',
      'commit_message_negative_regex',
      'branch_name_regex',
      'author_email_regex',
      'file_name_regex',
    ];
    for (const name of patterns) {
      for (const pattern of ['(', '(a)\\1', '(?=a)', '(?<!a)b', 'a{1,2000}']) {
        expect(await client.put(path, { [name]: pattern })).toMatchObject({
          status: 400,
          body: { message: { [name]: ['is not a valid regular expression (RE2)'] } },
        });
      }
      expect(await client.put(path, { [name]: 'a'.repeat(512) })).toMatchObject({
        status: 400,
        body: { message: { [name]: ['is too long (maximum is 511 characters)'] } },
      });
      const huge = await client.put(path, { [name]: '(x{0,30}){0,33}y' });
      expect(huge).toMatchObject({ status: 400, body: { message: { [name]: ['is too complex'] } } });
    }
    for (const max_file_size of [-1, 2 ** 31, 'much', 1.5]) {
      expect((await client.put(path, { max_file_size })).status).toBe(400);
    }
    expect((await client.put(path, { member_check: 'perhaps' })).status).toBe(400);
    expect((await client.get(path)).body).toMatchObject({ ...NOTHING, commit_message_regex: 'kept' });
    expect((await client.put(path, { file_name_regex: '(a+)+$' })).status).toBe(200);
  });

  it('is visible only to its administrators', async () => {
    const { path, owner, member } = await places[kind]();
    await app().as(owner).post(path, { max_file_size: 5 });
    const few = await member(kind === 'group' ? MAINTAINER : DEVELOPER);
    const stranger = await app().make.user();
    const attempts = (client: ReturnType<ReturnType<typeof app>['as']>) => [
      () => client.get(path),
      () => client.post(path, {}),
      () => client.put(path, { max_file_size: 6 }),
      () => client.delete(path),
    ];
    for (const attempt of attempts(app().as(few))) expect((await attempt()).status).toBe(403);
    for (const attempt of attempts(app().as(stranger))) expect((await attempt()).status).toBe(404);
    for (const attempt of attempts(app().anonymous)) expect([401, 404]).toContain((await attempt()).status);
    const reading = app().as(owner, ['read_api']);
    expect((await reading.get(path)).status).toBe(200);
    expect((await reading.put(path, { max_file_size: 6 })).status).toBe(403);
    expect((await app().as(app().root).get(path)).body).toMatchObject({ max_file_size: 5 });
    if (kind === 'project') {
      const maintainer = await member(MAINTAINER);
      expect((await app().as(maintainer).put(path, { max_file_size: 7 })).body).toMatchObject({ max_file_size: 7 });
    }
  });

  it('can be created only once, even by concurrent requests', async () => {
    const { path, owner } = await places[kind]();
    const answers = await Promise.all(Array.from({ length: 5 }, () => app().as(owner).post(path, {})));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 422, 422, 422, 422]);
  });

  it('takes each attribute in GraphQL, on creation and later', async () => {
    const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    const input = Object.fromEntries(Object.entries(ALL).map(([name, value]) => [camel(name), value]));
    for (const isNew of [true, false]) {
      const { path, full_path, owner } = await places[kind]();
      const client = app().as(owner);
      if (!isNew) expect((await client.post(path, {})).body).toMatchObject(NOTHING);
      const place = { [`${kind}Path`]: full_path };
      const { pushRule } = await mutate(
        client,
        `${kind}PushRule${isNew ? 'Create' : 'Update'}`,
        { ...place, ...input },
        `pushRule { ${Object.keys(input).join(' ')} }`,
      );
      expect(pushRule).toEqual(input);
      expect((await client.get(path)).body).toMatchObject(ALL);
    }
  });

  it('follows the same rules in GraphQL', async () => {
    const { path, full_path, owner, member } = await places[kind]();
    const client = app().as(owner);
    const title = kind === 'group' ? 'Group' : 'Project';
    const create = `mutation($input: ${title}PushRuleCreateInput!) {
      ${kind}PushRuleCreate(input: $input) { pushRule { id branchNameRegex maxFileSize preventSecrets } errors } }`;
    const update = `mutation($input: ${title}PushRuleUpdateInput!) {
      ${kind}PushRuleUpdate(input: $input) { pushRule { branchNameRegex maxFileSize } errors } }`;
    const destroy = `mutation($input: ${title}PushRuleDestroyInput!) { ${kind}PushRuleDestroy(input: $input) { errors } }`;
    const read = `query($path: ID!) { ${kind}(fullPath: $path) { pushRule { maxFileSize memberCheck createdAt } } }`;
    const at = { [`${kind}Path`]: full_path };
    const few = app().as(await member(kind === 'group' ? MAINTAINER : DEVELOPER));

    const made = await client.graphql(create, { input: { ...at, branchNameRegex: '^x', preventSecrets: true } });
    expect(made.data[`${kind}PushRuleCreate`]).toMatchObject({
      pushRule: { branchNameRegex: '^x', maxFileSize: 0, preventSecrets: true },
      errors: [],
    });
    const bad = await client.graphql(update, { input: { ...at, branchNameRegex: '(' } });
    expect(bad.data[`${kind}PushRuleUpdate`]).toMatchObject({
      pushRule: null,
      errors: ['Branch name regex is not a valid regular expression (RE2)'],
    });
    const changed = await client.graphql(update, { input: { ...at, maxFileSize: 3 } });
    expect(changed.data[`${kind}PushRuleUpdate`].pushRule).toEqual({ branchNameRegex: '^x', maxFileSize: 3 });
    expect((await client.get(path)).body).toMatchObject({ branch_name_regex: '^x', max_file_size: 3 });
    expect((await client.graphql(read, { path: full_path })).data[kind].pushRule).toMatchObject({ maxFileSize: 3 });

    expect((await few.graphql(read, { path: full_path })).data[kind]).toEqual({ pushRule: null });
    expect((await few.graphql(destroy, { input: at })).errors).toHaveLength(1);
    expect(
      (
        await app()
          .as(await app().make.user())
          .graphql(update, { input: at })
      ).errors,
    ).toHaveLength(1);
    expect((await client.graphql(destroy, { input: at })).data[`${kind}PushRuleDestroy`]).toEqual({ errors: [] });
    expect((await client.graphql(read, { path: full_path })).data[kind]).toEqual({ pushRule: null });
  });
});
