import { describe, expect, it } from 'vitest';
import { gid } from '#graphql/ids.ts';
import { insertPipeline } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { expectLists } from '../support/graphql.ts';

// Sets each argument of the lists of pipelines and jobs.

const app = useApp();

describe('pipelines and jobs', () => {
  it('are selected and listed by each argument', async () => {
    const { project, owner, people } = await makeScene(app());
    const { db } = app().hub.services;
    const project_id = project.id;
    const [FIRST, SECOND] = ['1'.repeat(40), '2'.repeat(40)];
    const first = await insertPipeline(
      db,
      {
        project_id,
        sha: FIRST,
        status: 'failed',
        source: 'web',
        user_id: people.maintainer.id,
        updated_at: '2024-06-01T00:00:00Z',
      },
      [
        { name: 'build', stage: 'build', status: 'failed', retried: true },
        { name: 'build again', stage: 'build', status: 'success' },
        { name: 'trigger', stage: 'deploy', status: 'manual', kind: 'bridge' },
      ],
    );
    await insertPipeline(db, { project_id, sha: SECOND, ref: 'v1', tag: true, status: 'running' });
    const at = `project(fullPath: "${project.path_with_namespace}")`;
    await expectLists(owner, at, 'pipelines', 'iid', [
      ['', ['1', '2']],
      ['ref: "v1"', ['2']],
      ['scope: TAGS', ['2']],
      ['scope: FINISHED', ['1']],
      [`sha: "${FIRST}"`, ['1']],
      ['source: "web"', ['1']],
      ['status: RUNNING', ['2']],
      ['updatedAfter: "2024-07-01T00:00:00Z"', ['2']],
      ['updatedBefore: "2024-07-01T00:00:00Z"', ['1']],
      [`username: "${people.maintainer.username}"`, ['1']],
    ]);
    await expectLists(owner, at, 'jobs', 'name', [
      ['', ['build', 'build again', 'trigger']],
      ['jobKind: BRIDGE', ['trigger']],
      ['jobKind: BUILD', ['build', 'build again']],
      ['statuses: [MANUAL, FAILED]', ['build', 'trigger']],
    ]);
    await expectLists(owner, `${at} { pipeline(iid: "1")`, 'jobs', 'name', [
      ['jobKind: BRIDGE', ['trigger']],
      ['retried: true', ['build']],
      ['retried: false', ['build again', 'trigger']],
      ['statuses: [SUCCESS]', ['build again']],
    ]);
    const { data, errors } = await owner.graphql(`{ ${at} {
      byId: pipeline(id: "${gid('Ci::Pipeline', first.id)}") { iid }
      bySha: pipeline(sha: "${SECOND}") { iid }
      none: pipeline(sha: "${'3'.repeat(40)}") { iid } } }`);
    expect(errors).toBeUndefined();
    expect(data.project).toEqual({ byId: { iid: '1' }, bySha: { iid: '2' }, none: null });
    for (const several of [`(iid: "1", sha: "${SECOND}")`, `(id: "${gid('Ci::Pipeline', first.id)}", iid: "1")`]) {
      const refused = await owner.graphql(`{ ${at} { pipeline${several} { iid } } }`);
      expect(refused.errors?.[0]?.message).toBe('only one of id, iid and sha can be given');
    }
  });
});
