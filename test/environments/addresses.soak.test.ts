import { expect, it } from 'vitest';
import { replaceDotenvVariables } from '#domains/ci/dotenv-variables.ts';
import { pipelineScene } from '../ci/pipeline-scene.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

const FILE = `
stages: [build, deploy]
build: {stage: build, script: [make]}
other: {stage: build, script: [make other]}
deploy:
  stage: deploy
  script: [deploy]
  needs: [build]
  environment: {name: production, url: "https://$HOST/$VERSION/$TARGET/$OWN/$OTHER/$SECRET"}
`;

const OF_JOB = `
deploy:
  script: [deploy]
  parallel: 1
  environment:
    name: review/$CI_JOB_NAME_SLUG-$CI_NODE_TOTAL
    url: https://app.example.com/$CI_JOB_ID/$CI_JOB_STAGE/$CI_ENVIRONMENT_TIER/$CI_ENVIRONMENT_ACTION?from=$CI_JOB_URL
check:
  script: [check]
  resource_group: $CI_ENVIRONMENT_NAME
  environment: {name: $CI_JOB_NAME/$CI_COMMIT_BRANCH, action: verify}
`;

it('has the variables that the job itself gets', async () => {
  const { client, path, create, run, end } = await pipelineScene(app(), OF_JOB);
  const { body } = await create();
  const job = await run(body.id, 'deploy 1/1');
  await end(job);
  const [found] = (await client.get(`${path}/environments`)).body;
  const jobUrl = (await client.get(`${path}/jobs/${job}`)).body.web_url;
  expect(found.name).toBe('review/deploy-1-1-1');
  expect(found.external_url).toBe(`https://app.example.com/${job}/test/development/start?from=${jobUrl}`);
  expect((await client.get(`${path}/resource_groups`)).body).toMatchObject([{ key: 'check/main' }]);
});

it('has the variables of the project, the pipeline, the job and the jobs before it, but no secrets', async () => {
  const { client, path, create, jobId, run, end } = await pipelineScene(app(), FILE);
  for (const variable of [
    { key: 'HOST', value: 'app.example.com' },
    { key: 'SECRET', value: 'a-masked-value', masked: true },
  ]) {
    expect((await client.post(`${path}/variables`, variable)).status).toBe(201);
  }
  const { body } = await create({ variables: [{ key: 'TARGET', value: 'staging' }] });
  const leave = (job: number, variables: Record<string, string>) =>
    app()
      .context()
      .transaction((tx) => replaceDotenvVariables(tx, job, new Map(Object.entries(variables))));
  await leave(await run(body.id, 'other'), { OTHER: 'not needed' });
  await leave(await run(body.id, 'build'), { VERSION: '1.2.3', TARGET: 'replaced' });
  await end(await jobId(body.id, 'build'));
  const deploy = await run(body.id, 'deploy');
  await leave(deploy, { OWN: 'own' });
  await end(deploy);
  const [found] = (await client.get(`${path}/environments?name=production`)).body;
  expect(found.external_url).toBe('https://app.example.com/1.2.3/staging/own/$OTHER/$SECRET');
});
