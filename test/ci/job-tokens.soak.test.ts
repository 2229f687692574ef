import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { finishJob } from '#domains/ci/transitions.ts';
import { digestToken } from '#platform/secrets.ts';
import { makeScene } from '../planning/scene.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { commitFile, runGit, tryGit } from '../support/git.ts';
import { giveToken, runningJob } from '../support/running-job.ts';

const app = useApp();
const db = () => app().hub.services.db;
const as = (token: string) => ({ 'job-token': token });

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'job-tokens-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const setStatus = (id: number, status: string) =>
  db().updateTable('jobs').set({ status }).where('id', '=', id).execute();

describe('the token of a job', () => {
  it('identifies its job in a header, a parameter and as a password', async () => {
    const { project, people, path } = await makeScene(app());
    const job = await runningJob(app(), project, people.maintainer);
    expect(job.token).toMatch(/^glcbt-.{27}$/);
    const { status, body } = await app().anonymous.get('/job', as(job.token));
    expect([status, body.id, body.name, body.status]).toEqual([200, job.id, 'build', 'running']);
    expect((await app().anonymous.get(`/job?job_token=${job.token}`)).status).toBe(200);
    const basic = { authorization: `Basic ${btoa(`gitlab-ci-token:${job.token}`)}` };
    expect((await app().anonymous.get(`${path}/pipelines`, basic)).body).toHaveLength(1);
    // It is not a personal token.
    const asOther = { authorization: `Basic ${btoa(`oauth2:${job.token}`)}` };
    for (const headers of [asOther, { 'private-token': job.token }, { authorization: `Bearer ${job.token}` }])
      expect((await app().anonymous.get('/job', headers)).status).toBe(401);
  });

  it('is needed for the job that it names', async () => {
    expect((await app().anonymous.get('/job')).status).toBe(401);
    expect((await app().as(app().root).get('/job')).status).toBe(404);
  });

  it('is stored as a digest, and replaced by a second one', async () => {
    const { project, people } = await makeScene(app());
    const { id, token } = await runningJob(app(), project, people.maintainer);
    const { token_digest } = await db()
      .selectFrom('jobs')
      .select('token_digest')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(token_digest).toEqual(digestToken(token));
    const second = await giveToken(app(), id);
    expect((await app().anonymous.get('/job', as(token))).status).toBe(401);
    expect((await app().anonymous.get('/job', as(second))).status).toBe(200);
  });

  it('lives while the job runs or is being canceled, and ends with it', async () => {
    const { project, people } = await makeScene(app());
    const { id, token } = await runningJob(app(), project, people.maintainer);
    const asked = async (status: string) => {
      await setStatus(id, status);
      return (await app().anonymous.get('/job', as(token))).status;
    };
    expect(await asked('canceling')).toBe(200);
    for (const status of ['pending', 'success', 'failed', 'canceled']) {
      expect(await asked(status)).toBe(401);
    }
    expect(await asked('running')).toBe(200);
    await app()
      .context()
      .transaction((tx) => finishJob(tx, id, { status: 'success' }));
    expect(await asked('running')).toBe(401);
  });

  it('never gives the rights of an administrator', async () => {
    const { project, people } = await makeScene(app());
    const { root, anonymous } = app();
    const other = await app().make.project({ visibility: 'private' }, people.stranger);
    await app().make.projectMember(project, root, 40);
    const { token } = await runningJob(app(), project, root);
    expect((await anonymous.get(`/projects/${project.id}/pipelines`, as(token))).status).toBe(200);
    await db()
      .updateTable('projects')
      .set({ ci_inbound_job_token_scope_enabled: false })
      .where('id', '=', other.id)
      .execute();
    expect((await anonymous.get(`/projects/${other.id}/pipelines`, as(token))).status).toBe(404);
    expect((await anonymous.get('/job', { ...as(token), sudo: people.owner.username })).status).toBe(403);
  });

  it('never gives the rights of an auditor', async () => {
    const { people } = await makeScene(app());
    const auditor = await app().make.user({ is_auditor: true });
    const own = await app().make.project({}, auditor);
    const other = await app().make.project({ visibility: 'private' }, people.stranger);
    await db()
      .updateTable('projects')
      .set({ ci_inbound_job_token_scope_enabled: false })
      .where('id', '=', other.id)
      .execute();
    const { token } = await runningJob(app(), own, auditor);
    expect((await app().as(auditor).get(`/projects/${other.id}/pipelines`)).status).toBe(200);
    expect((await app().anonymous.get(`/projects/${own.id}/pipelines`, as(token))).status).toBe(200);
    expect((await app().anonymous.get(`/projects/${other.id}/pipelines`, as(token))).status).toBe(404);
  });

  it('is refused for a blocked user', async () => {
    const { project, people } = await makeScene(app());
    const { token } = await runningJob(app(), project, people.maintainer);
    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', people.maintainer.id).execute();
    expect((await app().anonymous.get('/job', as(token))).status).toBe(403);
  });
});

describe('between projects', () => {
  it('reaches only projects that admit it, with the rights of its user', async () => {
    const { project, people, group } = await makeScene(app());
    const target = await app().make.project({ visibility: 'private' }, people.stranger);
    await app().make.projectMember(target, people.maintainer, 40);
    const mine = await runningJob(app(), project, people.maintainer);
    const ofReporter = await runningJob(app(), project, people.reporter);
    const asked = async (token: string) =>
      (await app().anonymous.get(`/projects/${target.id}/repository/branches`, as(token))).status;
    expect(await asked(mine.token)).toBe(404);
    const project_id = target.id;
    await db().insertInto('job_token_projects').values({ project_id, target_project_id: project.id }).execute();
    expect([await asked(mine.token), await asked(ofReporter.token)]).toEqual([200, 404]);
    await db().deleteFrom('job_token_projects').where('project_id', '=', project_id).execute();
    expect(await asked(mine.token)).toBe(404);
    await db().insertInto('job_token_groups').values({ project_id, target_group_id: group.id }).execute();
    expect([await asked(mine.token), await asked(ofReporter.token)]).toEqual([200, 404]);
    await db().deleteFrom('job_token_groups').where('project_id', '=', project_id).execute();
    await db()
      .updateTable('projects')
      .set({ ci_inbound_job_token_scope_enabled: false })
      .where('id', '=', project_id)
      .execute();
    expect([await asked(mine.token), await asked(ofReporter.token)]).toEqual([200, 404]);
  });

  it('sees a public or internal project as a stranger does', async () => {
    const { project, people } = await makeScene(app());
    const { token } = await runningJob(app(), project, people.maintainer);
    const asked = async (visibility: string, attributes: Record<string, unknown> = {}) => {
      const target = await app().make.project({ visibility, ...attributes }, people.stranger);
      await app().make.projectMember(target, people.maintainer, 40);
      return (await app().anonymous.get(`/projects/${target.id}/repository/branches`, as(token))).status;
    };
    expect(await asked('public')).toBe(200);
    expect(await asked('public', { repository_access_level: 'private' })).toBe(404);
    expect(await asked('internal')).toBe(200);
    expect(await asked('internal', { repository_access_level: 'private' })).toBe(404);
    await db().updateTable('users').set({ external: true }).where('id', '=', people.maintainer.id).execute();
    expect(await asked('internal')).toBe(404);
  });
});

describe('the allowlist', () => {
  const scene = async () => {
    const made = await makeScene(app());
    const other = await app().make.project({ visibility: 'private' }, made.people.maintainer);
    const hidden = await app().make.project({ visibility: 'private' }, made.people.stranger);
    return { ...made, other, hidden, at: `${made.path}/job_token_scope` };
  };

  it('admits projects and groups, and refuses them again', async () => {
    const { maintainer, project, group, other, at } = await scene();
    const projects = `${at}/allowlist`;
    const groups = `${at}/groups_allowlist`;
    const added = await maintainer.post(projects, { target_project_id: other.id });
    expect([added.status, added.body]).toEqual([201, { source_project_id: project.id, target_project_id: other.id }]);
    expect((await maintainer.post(projects, { target_project_id: other.id })).status).toBe(400);
    expect((await maintainer.post(projects, { target_project_id: project.id })).status).toBe(400);
    expect((await maintainer.post(groups, { target_group_id: group.id })).body).toEqual({
      source_project_id: project.id,
      target_group_id: group.id,
    });
    expect((await maintainer.get(projects)).body.map(({ id }: { id: number }) => id)).toEqual([other.id]);
    expect((await maintainer.get(groups)).body).toEqual([
      { id: group.id, name: expect.any(String), web_url: `${app().url}/groups/${group.full_path}` },
    ]);
    expect((await maintainer.delete(`${projects}/${other.id}`)).status).toBe(204);
    expect((await maintainer.delete(`${projects}/${other.id}`)).status).toBe(404);
    expect((await maintainer.delete(`${groups}/${group.id}`)).status).toBe(204);
    expect([(await maintainer.get(projects)).body, (await maintainer.get(groups)).body]).toEqual([[], []]);
    const events = await db()
      .selectFrom('events')
      .select(['payload', 'min_access_level'])
      .where('kind', '=', 'job_token_scope.changed')
      .where('project_id', '=', project.id)
      .orderBy('id')
      .execute();
    expect(events.map(({ payload }) => payload)).toEqual([
      { change: 'added', admitted: 'project', id: other.id },
      { change: 'added', admitted: 'group', id: group.id },
      { change: 'removed', admitted: 'project', id: other.id },
      { change: 'removed', admitted: 'group', id: group.id },
    ]);
    expect(events.every(({ min_access_level }) => min_access_level === 40)).toBe(true);
  });

  it('is turned off and on', async () => {
    const { maintainer, at } = await scene();
    expect((await maintainer.get(at)).body).toEqual({ inbound_enabled: true, outbound_enabled: false });
    expect((await maintainer.patch(at, { enabled: false })).status).toBe(204);
    expect((await maintainer.get(at)).body.inbound_enabled).toBe(false);
    expect((await maintainer.patch(at, { enabled: true })).status).toBe(204);
    expect((await maintainer.get(at)).body.inbound_enabled).toBe(true);
  });

  it('is for maintainers, who admit only projects and groups that they can see', async () => {
    const { maintainer, reporter, stranger, hidden, group, at } = await scene();
    expect((await maintainer.post(`${at}/allowlist`, { target_project_id: hidden.id })).status).toBe(404);
    const tried = async (client: typeof reporter) =>
      Promise.all([
        client.get(at),
        client.patch(at, { enabled: false }),
        client.get(`${at}/allowlist`),
        client.get(`${at}/groups_allowlist`),
        client.post(`${at}/groups_allowlist`, { target_group_id: group.id }),
        client.delete(`${at}/groups_allowlist/${group.id}`),
      ]);
    expect((await tried(reporter)).map(({ status }) => status)).toEqual([403, 403, 403, 403, 403, 403]);
    expect((await tried(stranger)).map(({ status }) => status)).toEqual([404, 404, 404, 404, 404, 404]);
    expect((await maintainer.get(at)).body.inbound_enabled).toBe(true);
  });

  it('ends at 200 entries', async () => {
    const { maintainer, project, other, group, at } = await scene();
    await sql`insert into namespaces (kind, name, path, full_path, full_name, visibility_level)
      select 'group', 'filler' || n, 'filler' || n, 'filler' || n, 'filler' || n, 0 from generate_series(1, 199) n`.execute(
      db(),
    );
    await sql`insert into job_token_groups (project_id, target_group_id)
      select ${project.id}, id from namespaces where path like 'filler%'`.execute(db());
    expect((await maintainer.post(`${at}/allowlist`, { target_project_id: other.id })).status).toBe(201);
    const { status, body } = await maintainer.post(`${at}/groups_allowlist`, { target_group_id: group.id });
    expect([status, body]).toEqual([400, { message: { base: ['The list is full (maximum is 200)'] } }]);
  });

  it('is read and changed over GraphQL', async () => {
    const { maintainer, reporter, project, other, group } = await scene();
    const path = project.path_with_namespace;
    const SCOPE =
      'ciJobTokenScope { inboundAllowlist(first: 5) { nodes { fullPath } } groupsAllowlist(last: 5) { nodes { fullPath } } }';
    const change = async (name: string, input: string) => {
      const { data } = await maintainer.graphql(
        `mutation { ${name}(input: { projectPath: "${path}", ${input} }) { errors ${SCOPE} } }`,
      );
      const { errors, ciJobTokenScope: scope } = data[name];
      return [
        errors,
        scope?.inboundAllowlist.nodes.map(({ fullPath }: { fullPath: string }) => fullPath),
        scope?.groupsAllowlist.nodes.map(({ fullPath }: { fullPath: string }) => fullPath),
      ];
    };
    const target = other.path_with_namespace;
    expect(await change('ciJobTokenScopeAddProject', `targetProjectPath: "${target}"`)).toEqual([[], [target], []]);
    expect((await change('ciJobTokenScopeAddProject', `targetProjectPath: "${target}"`))[0]).toEqual([
      'It is already on the list',
    ]);
    expect(await change('ciJobTokenScopeRemoveProject', `targetProjectPath: "${target}"`)).toEqual([[], [], []]);
    expect(await change('ciJobTokenScopeAddGroupOrProject', `targetPath: "${target}"`)).toEqual([[], [target], []]);
    expect(await change('ciJobTokenScopeAddGroupOrProject', `targetPath: "${group.full_path}"`)).toEqual([
      [],
      [target],
      [group.full_path],
    ]);
    expect(await change('ciJobTokenScopeRemoveGroup', `targetGroupPath: "${group.full_path}"`)).toEqual([
      [],
      [target],
      [],
    ]);
    const SETTINGS =
      'inboundJobTokenScopeEnabled jobTokenScopeEnabled pushRepositoryForJobTokenAllowed keepLatestArtifact mergePipelinesEnabled';
    const { data } = await maintainer.graphql(`mutation { projectCiCdSettingsUpdate(input: { fullPath: "${path}"
      inboundJobTokenScopeEnabled: false, jobTokenScopeEnabled: true, pushRepositoryForJobTokenAllowed: true
      keepLatestArtifact: false, mergePipelinesEnabled: true }) { errors ciCdSettings { ${SETTINGS} } } }`);
    const settings = {
      inboundJobTokenScopeEnabled: false,
      jobTokenScopeEnabled: true,
      pushRepositoryForJobTokenAllowed: true,
      keepLatestArtifact: false,
      mergePipelinesEnabled: true,
    };
    expect(data.projectCiCdSettingsUpdate).toEqual({ errors: [], ciCdSettings: settings });
    const READ = `{ project(fullPath: "${path}") { ciCdSettings { ${SETTINGS} } ${SCOPE} } }`;
    expect((await maintainer.graphql(READ)).data.project.ciCdSettings).toEqual(settings);
    expect((await reporter.graphql(READ)).data.project).toEqual({ ciCdSettings: null, ciJobTokenScope: null });
  });
});

describe('git', () => {
  const urlOf = (project: { readonly path_with_namespace: string }, token: string) =>
    `${app().url.replace('://', `://gitlab-ci-token:${token}@`)}/${project.path_with_namespace}.git`;
  const scene = async (user: (people: Record<'maintainer' | 'reporter', TestUser>) => TestUser) => {
    const { project, people, owner, path } = await makeScene(app(), { initialize_with_readme: true });
    return { project, owner, path, job: await runningJob(app(), project, user(people)) };
  };
  let count = 0;
  const clone = async (url: string) => {
    const tree = join(folder, `tree${++count}`);
    return { tree, ...(await tryGit(folder, 'clone', url, tree)) };
  };

  it('is cloned while the job runs', async () => {
    const { project, job } = await scene(({ reporter }) => reporter);
    expect((await clone(urlOf(project, job.token))).code).toBe(0);
    await setStatus(job.id, 'success');
    expect((await clone(urlOf(project, job.token))).stderr).toContain('Authentication failed');
  });

  it('takes the token of a person under the name of job tokens, as release bots send it', async () => {
    const { project, people, path } = await makeScene(app(), { initialize_with_readme: true });
    const token = await app().tokenOf(people.maintainer);
    const { tree } = await clone(urlOf(project, token));
    const pushed = await tryGit(tree, 'push', 'origin', 'HEAD:refs/tags/v1.0.0');
    expect(pushed.code, pushed.stderr).toBe(0);
    const headers = { authorization: `Basic ${btoa(`gitlab-ci-token:${token}`)}` };
    const { status } = await app().anonymous.post(`${path}/releases`, { tag_name: 'v1.0.0' }, headers);
    expect(status).toBe(201);
    const wrong = await tryGit(tree, 'ls-remote', urlOf(project, `${token}x`));
    expect(wrong.stderr).toContain('Authentication failed');
  });

  it('is not cloned from a project that does not admit the job', async () => {
    const { project } = await scene(({ maintainer }) => maintainer);
    const other = await scene(({ maintainer }) => maintainer);
    const { stderr } = await clone(urlOf(project, other.job.token));
    expect(stderr).toContain('Project Not Found');
  });

  it('is pushed to only if the project allows it', async () => {
    const { project, owner, path, job } = await scene(({ maintainer }) => maintainer);
    const { tree } = await clone(urlOf(project, job.token));
    await commitFile(tree, '.gitlab-ci.yml', 'test: { script: [make] }', 'Made by a job');
    const refused = await tryGit(tree, 'push', 'origin', 'HEAD:refs/heads/made');
    expect([refused.code, refused.stderr]).toEqual([128, expect.stringContaining('403')]);
    expect((await owner.put(path, { ci_push_repository_for_job_token_allowed: true })).status).toBe(200);
    expect(await runGit(tree, 'push', 'origin', 'HEAD:refs/heads/made')).toBe('');
    expect((await owner.get(`${path}/repository/branches/made`)).status).toBe(200);
    // Only the push of a person creates a pipeline.
    const { body: user } = await owner.get('/user');
    const personal = app().url.replace('://', `://oauth2:${await app().tokenOf(user)}@`);
    await runGit(tree, 'push', `${personal}/${project.path_with_namespace}.git`, 'HEAD:refs/heads/pushed');
    await app().settle();
    const refs = (await owner.get(`${path}/pipelines?source=push`)).body.map(({ ref }: { ref: string }) => ref);
    expect([refs.includes('made'), refs.includes('pushed')]).toEqual([false, true]);
    // Another project stays closed, even if both allow it.
    const other = await app().make.project({ visibility: 'public', initialize_with_readme: true });
    await db()
      .updateTable('projects')
      .set({ ci_push_repository_for_job_token_allowed: true, ci_inbound_job_token_scope_enabled: false })
      .where('id', '=', other.id)
      .execute();
    expect((await tryGit(tree, 'push', urlOf(other, job.token), 'HEAD:refs/heads/made')).stderr).toContain('403');
  });

  it('asks again for rights when the push has arrived', async () => {
    const { project, owner, path, job } = await scene(({ reporter }) => reporter);
    await owner.put(path, { ci_push_repository_for_job_token_allowed: true });
    const { tree } = await clone(urlOf(project, job.token));
    await commitFile(tree, 'made', 'by a job', 'Made by a job');
    expect((await tryGit(tree, 'push', 'origin', 'HEAD:refs/heads/made')).stderr).toContain('403');
  });
});
