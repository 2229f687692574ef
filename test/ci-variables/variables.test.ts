import { describe, expect, it } from 'vitest';
import { variablesFor } from '#domains/ci-variables/queries.ts';
import { getProject } from '#domains/projects/queries.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';

const app = useApp();

const places = {
  group: async () => {
    const owner = await app().make.user();
    const group = await app().make.group({ visibility: 'public' }, owner);
    const outsider = await app().make.user();
    await app().make.groupMember(group, outsider, 40);
    return { id: group.id, path: group.full_path, url: `/groups/${group.id}/variables`, owner, outsider };
  },
  project: async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'public' }, owner);
    const outsider = await app().make.user();
    await app().make.projectMember(project, outsider, 30);
    const { id, path_with_namespace: path } = project;
    return { id, path, url: `/projects/${id}/variables`, owner, outsider };
  },
};

const eventsAbout = async (key: string) => {
  const { rows } = await app().hub.services.pool.query(
    "select kind, min_access_level, payload from events where subject_type = 'CiVariable' and payload->>'key' = $1 order by id",
    [key],
  );
  return rows;
};

describe.each(['group', 'project'] as const)('the variables of a %s', (kind) => {
  it('are created, listed, changed and deleted, with events without values', async () => {
    const { url, owner } = await places[kind]();
    const client = app().as(owner);
    const KEY = `TOKEN_OF_${kind.toUpperCase()}`;
    const created = await client.post(url, { key: KEY, value: 'confidential' });
    const plain = {
      ...{ key: KEY, value: 'confidential', variable_type: 'env_var', description: null, environment_scope: '*' },
      ...{ protected: false, masked: false, hidden: false, raw: false },
    };
    expect(created).toMatchObject({ status: 201, body: plain });
    const changes = {
      ...{ value: 'confidential/2', variable_type: 'file', description: 'For the deployment', protected: true },
      ...{ masked: true, raw: true, environment_scope: 'production/*' },
    };
    expect(await client.put(`${url}/${KEY}`, changes)).toMatchObject({ status: 200, body: { key: KEY, ...changes } });
    expect((await client.put(`${url}/${KEY}`, { description: null })).body.description).toBeNull();
    expect((await client.put(`${url}/${KEY}`, {})).status).toBe(200);
    expect((await client.get(url)).body).toEqual([{ ...plain, ...changes, description: null }]);
    expect((await client.get(`${url}/${KEY}`)).body).toEqual({ ...plain, ...changes, description: null });
    expect((await client.delete(`${url}/${KEY}`)).status).toBe(204);
    const other = { key: 'OTHER', value: 'a file', variable_type: 'file', description: 'A file', protected: true };
    expect(await client.post(url, other)).toMatchObject({ status: 201, body: other });
    expect(await client.get(`${url}/${KEY}`)).toMatchObject({
      status: 404,
      body: { message: '404 Variable Not Found' },
    });
    const events = await eventsAbout(KEY);
    expect(events.map((event) => event.kind)).toEqual([
      'ci_variable.created',
      'ci_variable.updated',
      'ci_variable.updated',
      'ci_variable.deleted',
    ]);
    for (const event of events) expect(event.min_access_level).toBe(kind === 'group' ? 50 : 40);
    expect(events[1].payload.changed).toContain('value');
    expect(JSON.stringify(events)).not.toContain('confidential');
  });

  it('are selected by their environment scope if several have one key', async () => {
    const { url, owner } = await places[kind]();
    const client = app().as(owner);
    for (const environment_scope of ['*', 'staging'])
      await client.post(url, { key: 'A', value: environment_scope, environment_scope });
    expect(await client.post(url, { key: 'A', value: 'x' })).toMatchObject({
      status: 400,
      body: { message: { key: ['(A) has already been taken'] } },
    });
    expect(await client.get(`${url}/A`)).toMatchObject({
      status: 409,
      body: {
        message: "There are multiple variables with provided parameters. Please use 'filter[environment_scope]'",
      },
    });
    const staging = `${url}/A?filter[environment_scope]=staging`;
    expect((await client.get(staging)).body.value).toBe('staging');
    const filter = { environment_scope: 'staging' };
    expect(await client.put(`${url}/A`, { filter, environment_scope: '*' })).toMatchObject({ status: 400 });
    expect((await client.put(`${url}/A`, { filter, value: 'changed' })).body).toMatchObject({
      value: 'changed',
      environment_scope: 'staging',
    });
    expect((await client.delete(staging)).status).toBe(204);
    expect((await client.get(`${url}/A`)).body.value).toBe('*');
  });

  it('hide their value if they were created so', async () => {
    const { url, owner } = await places[kind]();
    const client = app().as(owner);
    const created = await client.post(url, { key: 'HIDDEN', value: 'never-shown-1', masked_and_hidden: true });
    expect(created).toMatchObject({ status: 201, body: { value: null, hidden: true, masked: true } });
    expect((await client.put(`${url}/HIDDEN`, { value: 'never-shown-2' })).body).toMatchObject({ value: null });
    expect(await client.put(`${url}/HIDDEN`, { masked: false })).toMatchObject({
      status: 400,
      body: { message: { masked: ['cannot be removed from a hidden variable'] } },
    });
    expect((await client.put(`${url}/HIDDEN`, { masked_and_hidden: true })).status).toBe(200);
    expect((await client.get(url)).body).toMatchObject([{ value: null, hidden: true, masked: true }]);
    await client.post(url, { key: 'SEEN', value: 'shown-before' });
    expect(await client.put(`${url}/SEEN`, { masked_and_hidden: true, value: 'other' })).toMatchObject({
      status: 400,
      body: { message: { base: ['Only new variables can be set as masked and hidden.'] } },
    });
    expect((await client.get(`${url}/SEEN`)).body).toMatchObject({ value: 'shown-before', hidden: false });
  });

  it('are refused with the reason if they are invalid', async () => {
    const { url, owner } = await places[kind]();
    const client = app().as(owner);
    const cases = [
      [{ key: 'no-dash', value: '' }, 'key'],
      [{ key: '', value: '' }, 'key'],
      [{ key: 'K'.repeat(256), value: '' }, 'key'],
      [{ key: 'A', value: 'x'.repeat(10_001) }, 'value'],
      [{ key: 'A', value: 'short', masked: true }, 'value'],
      [{ key: 'A', value: 'with blank and $', masked: true }, 'value'],
      [{ key: 'A', value: 'with blank', masked: true, raw: true }, 'value'],
      [{ key: 'A', value: '', environment_scope: 'a?b' }, 'environment_scope'],
      [{ key: 'A', value: '', environment_scope: 'e'.repeat(256) }, 'environment_scope'],
      [{ key: 'A', value: '', description: 'd'.repeat(256) }, 'description'],
    ] as const;
    for (const [body, field] of cases) {
      const answer = await client.post(url, body);
      expect([body, answer.status, Object.keys(answer.body.message)]).toEqual([body, 400, [field]]);
    }
    expect(await client.post(url, { key: 'A', value: 'x', variable_type: 'secret' })).toMatchObject({ status: 400 });
    expect((await client.get(url)).body).toEqual([]);
    expect((await client.post(url, { key: 'A', value: '$any,thing!', masked: true, raw: true })).status).toBe(201);
  });

  it('are only for those who administer them', async () => {
    const { url, path, owner, outsider } = await places[kind]();
    await app().as(owner).post(url, { key: 'A', value: 'confidential' });
    for (const [client, status] of [
      [app().as(outsider), 403],
      [app().as(await app().make.user()), 403],
      [app().anonymous, 401],
    ] as const) {
      const answers = [
        await client.get(url),
        await client.get(`${url}/A`),
        await client.post(url, { key: 'B', value: 'x' }),
        await client.put(`${url}/A`, { value: 'x' }),
        await client.delete(`${url}/A`),
      ];
      expect(answers.map((answer) => answer.status)).toEqual(Array(5).fill(status));
      const { data } = await client.graphql(`{ place: ${kind}(fullPath: "${path}") { ciVariables { count } } }`);
      expect(data.place.ciVariables).toBeNull();
    }
    expect((await app().as(owner).get(url)).body).toMatchObject([{ key: 'A', value: 'confidential' }]);
  });

  it('are managed over GraphQL', async () => {
    const { path, owner } = await places[kind]();
    const client = app().as(owner);
    const fields = 'ciVariable { id key value variableType environmentScope description protected masked hidden raw }';
    const place = { [`${kind}Path`]: path, key: 'A' };
    const created = await mutate(client, 'ciVariableCreate', { ...place, value: 'secret-one' }, fields);
    expect(created.ciVariable).toMatchObject({ key: 'A', value: 'secret-one', variableType: 'ENV_VAR', raw: false });
    expect(created.ciVariable.id).toContain(kind === 'group' ? 'Ci::GroupVariable' : 'Ci::Variable');
    const given = {
      ...{ variableType: 'FILE', environmentScope: 'review/*', description: 'd', protected: true },
      ...{ masked: true, raw: true },
    };
    const second = { ...place, value: 'secret-two', maskedAndHidden: true, ...given };
    expect((await mutate(client, 'ciVariableCreate', second, fields)).ciVariable).toMatchObject({
      ...given,
      value: null,
      hidden: true,
    });
    const changes = { ...given, environmentScope: 'test', value: 'secret-three' };
    const changed = { ...place, filterEnvironmentScope: '*', ...changes };
    expect((await mutate(client, 'ciVariableUpdate', changed, fields)).ciVariable).toMatchObject(changes);
    const query = `{ ${kind}(fullPath: "${path}") { ciVariables { count nodes { value environmentScope } } } }`;
    expect((await client.graphql(query)).data[kind].ciVariables).toEqual({
      count: 2,
      nodes: [
        { value: 'secret-three', environmentScope: 'test' },
        { value: null, environmentScope: 'review/*' },
      ],
    });
    await mutate(client, 'ciVariableDestroy', { ...place, filterEnvironmentScope: 'test' }, fields);
    expect((await client.graphql(query)).data[kind].ciVariables.count).toBe(1);
    const both = { projectPath: path, groupPath: path, key: 'A' };
    const refused = await client.graphql(
      'mutation ($input: CiVariableDestroyInput!) { ciVariableDestroy(input: $input) { errors } }',
      { input: both },
    );
    expect(JSON.stringify(refused)).toContain('mutually exclusive');
  });
});

describe('the variables of the instance', () => {
  it('are for administrators, who create at most 25', async () => {
    const url = '/admin/ci/variables';
    const admin = app().as(app().root);
    const attributes = {
      ...{
        value: 'of-the-instance',
        variable_type: 'file',
        description: 'd',
        protected: true,
        masked: true,
        raw: true,
      },
    };
    expect(await admin.post(url, { key: 'EVERYWHERE', ...attributes })).toMatchObject({
      status: 201,
      body: { key: 'EVERYWHERE', ...attributes },
    });
    const changes = {
      ...{ value: 'changed-since', variable_type: 'env_var', description: 'e', protected: false },
      ...{ masked: false, raw: false },
    };
    expect((await admin.put(`${url}/EVERYWHERE`, changes)).body).toEqual({ key: 'EVERYWHERE', ...changes });
    expect((await admin.get(`${url}/EVERYWHERE`)).body).toEqual({ key: 'EVERYWHERE', ...changes });
    expect((await admin.get(url)).body).toEqual([{ key: 'EVERYWHERE', ...changes }]);

    const user = app().as(await app().make.user());
    for (const answer of [
      await user.get(url),
      await user.get(`${url}/EVERYWHERE`),
      await user.post(url, { key: 'A', value: 'x' }),
      await user.put(`${url}/EVERYWHERE`, { value: 'x' }),
      await user.delete(`${url}/EVERYWHERE`),
    ])
      expect(answer.status).toBe(403);
    expect((await user.graphql('{ ciVariables { count } }')).data.ciVariables).toBeNull();
    const byMutation = 'mutation { ciVariableCreate(input: { key: "A", value: "x" }) { errors } }';
    expect(JSON.stringify((await user.graphql(byMutation)).errors)).toContain('FORBIDDEN');
    const scoped =
      'mutation { ciVariableCreate(input: { key: "A", value: "x", environmentScope: "test" }) { errors } }';
    expect(JSON.stringify(await admin.graphql(scoped))).toContain('environment_scope is not allowed');

    const { data } = await admin.graphql('{ ciVariables { nodes { key environmentScope } } }');
    expect(data.ciVariables.nodes).toEqual([{ key: 'EVERYWHERE', environmentScope: '*' }]);
    for (let count = 1; count < 25; count += 1)
      expect((await admin.post(url, { key: `V${count}`, value: 'x' })).status).toBe(201);
    expect(await admin.post(url, { key: 'ONE_MORE', value: 'x' })).toMatchObject({
      status: 400,
      body: { message: { base: ['Maximum number of ci variables (25) exceeded'] } },
    });
    for (const { key } of (await admin.get(`${url}?per_page=100`)).body)
      expect((await admin.delete(`${url}/${key}`)).status).toBe(204);
  });
});

describe('the variables of a job', () => {
  const valuesFor = async (
    project: { readonly id: number },
    reader: { readonly protected?: boolean; readonly environment?: string } = {},
  ) => {
    const ctx = app().context();
    const found = await variablesFor(ctx, await getProject(ctx, { id: project.id }), {
      protected: reader.protected ?? false,
      environment: reader.environment ?? null,
    });
    return Object.fromEntries(found.map(({ key, value }) => [key, value]));
  };
  const fill = async (owner: TestUser) => {
    const client = app().as(owner);
    const outer = await app().make.group({}, owner);
    const inner = await app().make.group({ parent_id: outer.id }, owner);
    const project = await app().make.project({ namespace_id: inner.id }, owner);
    return { client, outer, inner, project };
  };

  it('come from the instance, the groups and the project, and the nearest wins', async () => {
    const { client, outer, inner, project } = await fill(await app().make.user());
    const urls = [
      '/admin/ci/variables',
      `/groups/${outer.id}/variables`,
      `/groups/${inner.id}/variables`,
      `/projects/${project.id}/variables`,
    ];
    const owners = ['instance', 'outer', 'inner', 'project'];
    for (const [place, url] of urls.entries())
      for (const owner of owners.slice(0, place + 1)) {
        const by = place === 0 ? app().as(app().root) : client;
        await by.post(url, { key: `LAST_${owners.length - owners.indexOf(owner)}`, value: owners[place] });
        if (owners[place] === owner) await by.post(url, { key: `ONLY_${owner}`, value: 'yes' });
      }
    expect(await valuesFor(project)).toEqual({
      ...{ LAST_4: 'project', LAST_3: 'project', LAST_2: 'project', LAST_1: 'project' },
      ...{ ONLY_instance: 'yes', ONLY_outer: 'yes', ONLY_inner: 'yes', ONLY_project: 'yes' },
    });
    expect((await client.delete(`/projects/${project.id}/variables/LAST_3`)).status).toBe(204);
    expect((await valuesFor(project)).LAST_3).toBe('inner');
    for (const key of ['LAST_4', 'ONLY_instance']) await app().as(app().root).delete(`/admin/ci/variables/${key}`);
  });

  it('are protected ones only if the branch or tag is', async () => {
    const { client, project } = await fill(await app().make.user());
    await client.post(`/projects/${project.id}/variables`, { key: 'A', value: 'x', protected: true });
    expect(await valuesFor(project)).toEqual({});
    expect(await valuesFor(project, { protected: true })).toEqual({ A: 'x' });
  });

  it('fit the environment, and the closest scope wins', async () => {
    const { client, project } = await fill(await app().make.user());
    const url = `/projects/${project.id}/variables`;
    for (const environment_scope of ['review/a', '*', 'review/*', 'r*', 'a.b', 'a_b', '*c\\'])
      await client.post(url, { key: 'A', value: environment_scope, environment_scope });
    const of = async (environment: string) => (await valuesFor(project, { environment })).A;
    expect((await valuesFor(project)).A).toBe('*');
    expect(
      await Promise.all(['review/a', 'review/b', 'rest', 'production', 'a.b', 'a_b', 'axb', 'c\\'].map(of)),
    ).toEqual(['review/a', 'review/*', 'r*', '*', 'a.b', 'a_b', '*', '*c\\']);
  });

  it('carry their flags', async () => {
    const { client, project } = await fill(await app().make.user());
    const url = `/projects/${project.id}/variables`;
    await client.post(url, { key: 'A', value: 'masked-value', masked: true, raw: true, variable_type: 'file' });
    const ctx = app().context();
    const found = await variablesFor(ctx, await getProject(ctx, { id: project.id }), {
      protected: false,
      environment: null,
    });
    expect(found).toEqual([{ key: 'A', value: 'masked-value', masked: true, raw: true, file: true, is_lost: false }]);
  });

  it('are encrypted at rest', async () => {
    const { client, project } = await fill(await app().make.user());
    await client.post(`/projects/${project.id}/variables`, { key: 'A', value: 'confidential' });
    const { rows } = await app().hub.services.pool.query(
      'select ci_variables::text as row, sealed_value from ci_variables where project_id = $1',
      [project.id],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0].row).not.toContain('confidential');
    expect(rows[0].sealed_value.toString('latin1')).not.toContain('confidential');
  });
});
