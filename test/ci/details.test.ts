import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { digestToken } from '#platform/secrets.ts';
import { insertMergeRequest, insertPipeline } from '../merge-requests/support.ts';
import { useApp } from '../support/app.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner } from '../support/runner/queue.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();

const FILE = `
quick: {script: [x], tags: [rare]}
gate: {script: [x], when: manual}
`;

const makeScene = async () => {
  const scene = await pipelineScene(app(), FILE);
  const member = async (access_level: number) => {
    const user = await app().make.user();
    await scene.client.post(`${scene.path}/members`, { user_id: user.id, access_level });
    return app().as(user);
  };
  const query = async (fields: string, client = scene.client) => {
    const { data, errors } = (await client.graphql(
      `query ($path: ID!) { project(fullPath: $path) { pipelines(last: 1) { nodes { ${fields} } } } }`,
      { path: scene.project.path_with_namespace },
    )) as { data: { project: { pipelines: { nodes: unknown[] } } } | null; errors?: { message: string }[] };
    return errors?.[0]?.message ?? data?.project.pipelines.nodes[0];
  };
  const { id } = await scene.newest();
  return { ...scene, id, member, query };
};

describe('a job over GraphQL', () => {
  it('is stuck while no runner that is online may take it', async () => {
    const { query } = await makeScene();
    const fields = 'stuck job(name: "quick") { stuck } gate: job(name: "gate") { stuck }';
    const stuck = { stuck: true, job: { stuck: true }, gate: { stuck: false } };
    expect(await query(fields)).toEqual(stuck);
    const { token } = await makeRunner(app(), { tag_list: ['rare'], run_untagged: false });
    // It has never made contact.
    expect(await query(fields)).toEqual(stuck);
    await new Protocol({ url: app().url, token }).verify();
    expect(await query(fields)).toEqual({ stuck: false, job: { stuck: false }, gate: { stuck: false } });
    await sql`update runners set paused = true where digest = ${digestToken(token)}`.execute(app().hub.services.db);
    expect(await query(fields)).toEqual(stuck);
  });

  it('names its runner and machine to those who can see the runner', async () => {
    const { query, project, member } = await makeScene();
    const runner = { runner_type: 'project_type', project_id: project.id, tag_list: ['rare'], description: 'ours' };
    const { token } = await makeRunner(app(), runner);
    expect(await new Protocol({ url: app().url, token }).request()).not.toBeNull();
    const fields = 'job(name: "quick") { triggered runner { description } runnerManager { systemId } }';
    expect(await query(fields)).toEqual({
      job: { triggered: false, runner: { description: 'ours' }, runnerManager: { systemId: expect.any(String) } },
    });
    const hidden = { job: { triggered: false, runner: null, runnerManager: null } };
    expect(await query(fields, await member(30))).toEqual(hidden);
  });

  it('is found in its pipeline by id or name', async () => {
    const { query, jobId, id } = await makeScene();
    const gid = `gid://gitlab/Ci::Build/${await jobId(id, 'gate')}`;
    expect(await query(`job(id: "${gid}") { name browseArtifactsPath }`)).toEqual({
      job: { name: 'gate', browseArtifactsPath: expect.stringMatching(/\/-\/jobs\/\d+\/artifacts\/browse$/) },
    });
    const other = await makeScene();
    expect(await other.query(`job(id: "${gid}") { name }`)).toEqual({ job: null });
    expect(await query('job(name: "none") { name }')).toEqual({ job: null });
    for (const selection of ['job', `job(id: "${gid}", name: "gate")`]) {
      expect(await query(`${selection} { name }`)).toBe('one of id and name must be given');
    }
  });

  it('shows the rights of the caller', async () => {
    const { query, member } = await makeScene();
    const fields = `commit { title }
      userPermissions { updatePipeline cancelPipeline adminPipeline destroyPipeline }
      job(name: "quick") { userPermissions { readBuild updateBuild cancelBuild readJobArtifacts } }`;
    const permissions = (may: boolean, owns = may) => ({
      commit: { title: 'Change' },
      userPermissions: { updatePipeline: may, cancelPipeline: may, adminPipeline: may, destroyPipeline: owns },
      job: { userPermissions: { readBuild: true, updateBuild: may, cancelBuild: may, readJobArtifacts: true } },
    });
    expect(await query(fields)).toEqual(permissions(true));
    // Developers may not push to the default branch, which is protected.
    expect(await query(fields, await member(30))).toMatchObject({
      userPermissions: { updatePipeline: false, cancelPipeline: true, adminPipeline: true, destroyPipeline: false },
    });
    expect(await query(fields, await member(20))).toEqual(permissions(false));
  });
});

describe('the ref of a pipeline', () => {
  it('is its branch, or its merge request if the caller can see it, as safe HTML', async () => {
    const { client, project } = await makeScene();
    const { db } = app().hub.services;
    const project_id = project.id;
    const full_path = project.path_with_namespace;
    const { id, iid } = await insertMergeRequest(db, { project_id, source_branch: 'a<b>' });
    await insertPipeline(db, { project_id, ref: 'fix/<i>' });
    for (const kind of ['head', 'merge']) {
      const ref = `refs/merge-requests/${iid}/${kind}`;
      await insertPipeline(db, { project_id, ref, merge_request_id: id, source: 'external' });
    }
    const texts = async () => {
      const query = 'query ($path: ID!) { project(fullPath: $path) { pipelines(first: 3) { nodes { refText } } } }';
      const { data } = await client.graphql(query, { path: full_path });
      return data.project.pipelines.nodes.map(({ refText }: { refText: string }) => refText);
    };
    const linkTo = (name: string, path: string) =>
      `<a class="ref-container" href="/${full_path}/-/tree/${path}">${name}</a>`;
    const link = `<a class="mr-iid ref-container" href="/${full_path}/-/merge_requests/${iid}">!${iid}</a>`;
    const request = `Related merge request ${link} to merge a&#60;b&#62;`;
    const branch = `For ${linkTo('fix/&#60;i&#62;', 'fix/%3Ci%3E')}`;
    expect(await texts()).toEqual([`${request} into ${linkTo('main', 'main')}`, request, branch]);
    await client.put(`/projects/${project_id}`, { merge_requests_access_level: 'disabled' });
    expect(await texts()).toEqual([
      `For refs/merge-requests/${iid}/merge`,
      `For refs/merge-requests/${iid}/head`,
      branch,
    ]);
  });
});

describe('variables that were given by hand', () => {
  it('are for the user who gave them and for Maintainers', async () => {
    const { member, create, client, path, jobId } = await makeScene();
    const { body } = await create({ variables: [{ key: 'WHERE', value: '$HOME', variable_type: 'env_var' }] });
    const gate = await jobId(body.id, 'gate');
    const variables = [{ key: 'HOW', value: 'fast' }];
    await client.post(`${path}/jobs/${gate}/play`, { job_variables_attributes: variables });
    const list = 'manualVariables { nodes { key value raw } }';
    const fields = `${list} variables { nodes { key } } job(name: "gate") { ${list} } quick: job(name: "quick") { ${list} }`;
    const given = {
      manualVariables: { nodes: [{ key: 'WHERE', value: '$HOME', raw: false }] },
      variables: { nodes: [{ key: 'WHERE' }] },
      job: { manualVariables: { nodes: [{ key: 'HOW', value: 'fast', raw: false }] } },
      quick: { manualVariables: { nodes: [] } },
    };
    const newest = async (caller = client) => {
      const { data } = await caller.graphql(
        `query ($id: CiPipelineID!, $path: ID!) {
        project(fullPath: $path) { pipeline(id: $id) { ${fields} } } }`,
        {
          id: `gid://gitlab/Ci::Pipeline/${body.id}`,
          path: (await client.get(path)).body.path_with_namespace,
        },
      );
      return data.project.pipeline;
    };
    expect(await newest()).toEqual(given);
    expect(await newest(await member(40))).toEqual(given);
    const nothing = {
      manualVariables: null,
      variables: null,
      job: { manualVariables: null },
      quick: { manualVariables: null },
    };
    for (const role of [30, 20]) expect(await newest(await member(role))).toEqual(nothing);
  });
});
