import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { expectLists } from '../support/graphql.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();

const FILE = `
stages: [build, test, deploy]
build: {stage: build, script: [x], artifacts: {paths: [x]}}
unit: {stage: test, script: [x], parallel: 2}
lint: {stage: test, script: [x], allow_failure: true}
later: {stage: test, script: [x], when: delayed, start_in: 1 day}
release: {stage: deploy, script: [x], when: manual}
`;

const scene = async () => {
  const made = await pipelineScene(app(), FILE);
  const { id } = await made.newest();
  const query = async (fields: string, client = made.client) => {
    const { data, errors } = await client.graphql(
      `query ($path: ID!) { project(fullPath: $path) { pipelines(first: 1) { nodes { ${fields} } } } }`,
      { path: made.project.path_with_namespace },
    );
    expect(errors).toBeUndefined();
    return data.project.pipelines.nodes[0];
  };
  const guest = async () => {
    const user = await app().make.user();
    await made.client.post(`${made.path}/members`, { user_id: user.id, access_level: 20 });
    return app().as(user);
  };
  return { ...made, id, query, guest };
};

const namesIn = ({ nodes }: { nodes: { name: string }[] }) => nodes.map(({ name }) => name);

describe('the stages of a pipeline over GraphQL', () => {
  it('show parallel jobs as one group with one status', async () => {
    const { id, query, finish } = await scene();
    await finish(id, 'build');
    await finish(id, 'unit 1/2');
    const { stages } = await query(`stages { nodes { name groups { nodes {
      id name size detailedStatus { text detailsPath } jobs(first: 1) { nodes { name } pageInfo { hasNextPage } } } } } }`);
    const [build, test] = stages.nodes;
    expect(build.groups.nodes).toEqual([
      {
        id: expect.stringMatching(/^\d+-build$/),
        name: 'build',
        size: 1,
        detailedStatus: { text: 'Passed', detailsPath: expect.stringMatching(/\/-\/jobs\/\d+$/) },
        jobs: { nodes: [{ name: 'build' }], pageInfo: { hasNextPage: false } },
      },
    ]);
    expect(namesIn(test.groups)).toEqual(['unit', 'lint', 'later']);
    expect(test.groups.nodes[0]).toMatchObject({
      size: 2,
      detailedStatus: { text: 'Running', detailsPath: expect.stringMatching(/\/-\/pipelines\/\d+$/) },
      jobs: { nodes: [{ name: 'unit 1/2' }], pageInfo: { hasNextPage: true } },
    });
  });

  it('are found by id by those who can see the pipeline', async () => {
    const { query, client } = await scene();
    const { stages } = await query('stages { nodes { id name } }');
    const find = async (who: typeof client) =>
      (await who.graphql('query ($id: CiStageID!) { ciPipelineStage(id: $id) { name } }', { id: stages.nodes[1].id }))
        .data.ciPipelineStage;
    expect(await find(client)).toEqual({ name: 'test' });
    expect(await find(app().as(await app().make.user()))).toBeNull();
    const none = await client.graphql('{ ciPipelineStage(id: "gid://gitlab/Ci::Stage/999999999") { name } }');
    expect(none.data.ciPipelineStage).toBeNull();
  });
});

describe('the action beside the status of a job', () => {
  const fields = (name: string) =>
    `job(name: "${name}") { id detailedStatus { action { id icon title buttonTitle method path } } }`;

  it('can be called as it says', async () => {
    const { id, query, client, finish, jobId, shown } = await scene();
    const actionOf = async (name: string) => (await query(fields(name))).job.detailedStatus.action;
    expect(await actionOf('release')).toMatchObject({ title: 'Cancel' });
    await finish(id, 'build');
    const job = await jobId(id, 'later');
    expect(await actionOf('later')).toEqual({
      id: `${job}-play`,
      icon: 'play',
      title: 'Run',
      buttonTitle: 'Run this delayed job now',
      method: 'post',
      path: expect.stringMatching(new RegExp(`^/api/v4/projects/\\d+/jobs/${job}/play$`)),
    });
    for (const [name, title] of [
      ['build', 'Retry'],
      ['lint', 'Cancel'],
      ['later', 'Run'],
    ] as const) {
      const action = await actionOf(name);
      expect([name, action.title]).toEqual([name, title]);
      const { status } = await client.post(action.path.replace('/api/v4', ''));
      expect([name, status]).toEqual([name, title === 'Run' ? 200 : 201]);
    }
    await app().settle();
    expect(await shown(id)).toContain('lint canceled');
    expect(await shown(id)).toContain('later pending');
  });

  it('is only offered to those who may call it, and only for jobs', async () => {
    const { query, guest } = await scene();
    const { job } = await query(fields('build'), await guest());
    expect(job.detailedStatus.action).toBeNull();
    const { detailedStatus } = await query('detailedStatus { text action { title } }');
    expect(detailedStatus).toEqual({ text: 'Pending', action: null });
  });
});

describe('the graph of a pipeline', () => {
  it('is read by one query without page sizes, as pages ask for it', async () => {
    const { query } = await scene();
    const { stages } = await query(`id iid usesNeeds userPermissions { updatePipeline }
      downstream { nodes { id path project { name } sourceJob { name } } } upstream { id }
      stages { nodes { name status detailedStatus { group action { title path } } groups { nodes {
        name size detailedStatus { label hasDetails } jobs { nodes {
          id name kind needs { nodes { id name } } previousStageJobsOrNeeds { nodes {
            ... on CiBuildNeed { id name } ... on CiJob { id name } } }
          detailedStatus { id icon tooltip detailsPath action { id icon title buttonTitle path confirmationMessage } } } } } } } }`);
    expect(stages.nodes.map(({ groups }: { groups: { nodes: { name: string }[] } }) => namesIn(groups))).toEqual([
      ['build'],
      ['unit', 'lint', 'later'],
      ['release'],
    ]);
  });

  it('names the jobs that each job waits for: its needs, or the stage before', async () => {
    const { client, project } = await pipelineScene(
      app(),
      `
stages: [a, b, c]
one: {stage: a, script: [x]}
two: {stage: a, script: [x]}
staged: {stage: b, script: [x]}
needy: {stage: c, script: [x], needs: [one]}
at once: {stage: c, script: [x], needs: []}
`,
    );
    const { data } = await client.graphql(`{ project(fullPath: "${project.path_with_namespace}") {
      pipelines(first: 1) { nodes { jobs(first: 5) { nodes { name previousStageJobsOrNeeds { nodes {
        __typename ... on CiBuildNeed { name } ... on CiJob { name } } } } } } } } }`);
    const [pipeline] = data.project.pipelines.nodes;
    const byName = pipeline.jobs.nodes.map(
      (job: { name: string; previousStageJobsOrNeeds: { nodes: { __typename: string; name: string }[] } }) => [
        job.name,
        job.previousStageJobsOrNeeds.nodes.map(({ __typename, name }) => `${__typename} ${name}`),
      ],
    );
    expect(Object.fromEntries(byName)).toEqual({
      one: [],
      two: [],
      staged: ['CiJob one', 'CiJob two'],
      needy: ['CiBuildNeed one'],
      'at once': [],
    });
  });
});

describe('jobs over GraphQL', () => {
  it('are counted up to a limit', async () => {
    const { query } = await scene();
    expect(await query('jobs { count few: count(limit: 2) many: count(limit: 50) }')).toEqual({
      jobs: { count: 6, few: 3, many: 6 },
    });
    expect(await query('stages(first: 1) { count } jobs(first: 1) { none: count(limit: 0) }')).toEqual({
      stages: { count: 3 },
      jobs: { none: 1 },
    });
  });

  it('refuse a negative limit', async () => {
    const { project, client } = await scene();
    const { errors } = await client.graphql(
      `{ project(fullPath: "${project.path_with_namespace}") { jobs { count(limit: -1) } } }`,
    );
    expect(errors?.[0]?.message).toBe('`limit` must not be negative');
  });

  it('are selected by their keyword `when`, and by their artifacts and logs', async () => {
    const { project, client, id, jobId } = await scene();
    const at = `project(fullPath: "${project.path_with_namespace}")`;
    await expectLists(client, `${at} { pipeline(id: "gid://gitlab/Ci::Pipeline/${id}")`, 'jobs', 'name', [
      ['whenExecuted: ["manual"]', ['release']],
      ['whenExecuted: ["delayed", "manual"]', ['later', 'release']],
    ]);
    await app()
      .hub.services.db.insertInto('job_artifacts')
      .values({
        project_id: project.id,
        job_id: await jobId(id, 'build'),
        file_type: 'archive',
        file_format: 'zip',
        filename: 'artifacts.zip',
        size: 1,
        sha256: '0'.repeat(64),
        storage_key: `none/${id}`,
      })
      .execute();
    await expectLists(client, at, 'jobs', 'name', [
      ['withArtifacts: true', ['build']],
      ['withArtifacts: false, statuses: [MANUAL, CREATED]', ['unit 1/2', 'unit 2/2', 'lint', 'later', 'release']],
    ]);
  });

  it('of all projects are listed for administrators', async () => {
    const { id, client, run, jobId } = await scene();
    await run(id, 'build');
    const build = `gid://gitlab/Ci::Build/${await jobId(id, 'build')}`;
    const query = `{
      running: jobs(statuses: [RUNNING], first: 1) { nodes { id } }
      runner: jobs(runnerTypes: [INSTANCE_TYPE], first: 1) { nodes { id } }
      group: jobs(runnerTypes: [GROUP_TYPE], first: 1) { count }
      bridges: jobs(jobKind: BRIDGE, first: 1) { count }
      newest: jobs(first: 1) { nodes { name } pageInfo { hasNextPage } } }`;
    const { data } = await app().as(app().root).graphql(query);
    expect(data).toEqual({
      running: { nodes: [{ id: build }] },
      runner: { nodes: [{ id: build }] },
      group: { count: 0 },
      bridges: { count: 0 },
      newest: { nodes: [{ name: 'release' }], pageInfo: { hasNextPage: true } },
    });
    const others = await client.graphql('{ jobs { count nodes { id } } }');
    expect(others.data).toEqual({ jobs: { count: 0, nodes: [] } });
  });

  it('name the settings of the instance that decide about pipelines', async () => {
    const { client } = await scene();
    const query = '{ ciApplicationSettings { keepLatestArtifact } }';
    expect((await client.graphql(query)).data).toEqual({ ciApplicationSettings: { keepLatestArtifact: true } });
    expect((await app().anonymous.graphql(query)).data).toEqual({ ciApplicationSettings: null });
  });
});
