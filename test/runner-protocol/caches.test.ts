import { expect, it } from 'vitest';
import type { Cache } from '#domains/ci-config/model.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner, queuePipeline } from '../support/runner/queue.ts';

const app = useApp();

const CACHE: Cache = {
  ...{ key: 'deps', fallback_keys: ['older', '$ANY'], paths: ['lib'], untracked: false },
  ...{ policy: 'pull-push', when: 'on_success', unprotect: false },
};

const scene = async () => {
  const made = await makeScene(app());
  const { token } = await makeRunner(app(), { runner_type: 'project_type', project_id: made.project.id });
  const protocol = new Protocol({ url: app().url, token });
  /** Expects the runner to get these keys for the cache of a job, the first one before the fallback keys. */
  const expectKeys = async (
    isProtected: boolean,
    cache: Partial<Cache>,
    [key, ...fallback_keys]: readonly string[],
  ) => {
    const pipeline = { project_id: made.project.id, protected: isProtected };
    await queuePipeline(app(), pipeline, [{ name: 'job', caches: [{ ...CACHE, ...cache }] }]);
    const job = await protocol.request();
    expect(job).toMatchObject({ cache: [fallback_keys.length === 0 ? { key } : { key, fallback_keys }] });
  };
  return { ...made, expectKeys };
};

it('separates the caches of protected branches, with their fallback keys', async () => {
  const { expectKeys, owner, path } = await scene();
  await expectKeys(true, {}, ['deps-protected', 'older-protected', '$ANY-protected']);
  const open = ['deps-non_protected', 'older-non_protected', '$ANY-non_protected'];
  await expectKeys(false, {}, open);
  await expectKeys(true, { unprotect: true }, open);
  await owner.put(path, { ci_separated_caches: false });
  await expectKeys(true, {}, ['deps', 'older', '$ANY']);
});

it('gives caches other keys after they were cleared', async () => {
  const { expectKeys, project, maintainer, reporter } = await scene();
  const input = { projectId: `gid://gitlab/Project/${project.id}` };
  const refused = await reporter.graphql(
    'mutation ($input: RunnerCacheClearInput!) { runnerCacheClear(input: $input) { errors } }',
    { input },
  );
  expect(refused.errors?.[0]?.extensions?.code).toBe('FORBIDDEN');
  await expectKeys(false, { fallback_keys: [] }, ['deps-non_protected']);
  await mutate(maintainer, 'runnerCacheClear', input);
  await expectKeys(false, {}, ['deps-1-non_protected', 'older-1-non_protected', '$ANY-1-non_protected']);
  await mutate(maintainer, 'runnerCacheClear', input);
  await expectKeys(true, { fallback_keys: [] }, ['deps-2-protected']);
});
