import fc from 'fast-check';
import { expect } from 'vitest';
import { insertRule } from '../approvals/support.ts';
import { remoteOf, runGit } from '../repositories/support.ts';
import type { TestApp, TestUser } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import { type History, histories, type Made, makeHistory, startHistory } from './merging-histories.ts';
import {
  expectedAnswer,
  expectedCommits,
  expectedStatus,
  PIPELINES,
  PROTECTIONS,
  type Situation,
} from './merging-model.ts';
import { insertPipeline } from './support.ts';

/** Half of all situations let a merge through, as far as a flag decides. */
const rarely = fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) });
const choice = fc.constantFrom(undefined, true, false);

const situations: fc.Arbitrary<Situation> = fc.record({
  method: fc.constantFrom('merge', 'rebase_merge', 'ff'),
  squash_option: fc.constantFrom('never', 'default_off', 'default_on', 'always'),
  squashOnCreation: choice,
  squashOnMerge: choice,
  squashMessage: fc.constantFrom(undefined, undefined, 'Squashed by a person'),
  protection: fc.constantFrom(...PROTECTIONS),
  isDeveloper: fc.boolean(),
  pipeline: fc.constantFrom(...PIPELINES),
  needsPipeline: rarely,
  skippedIsEnough: fc.boolean(),
  draft: rarely,
  hasOpenThread: fc.boolean(),
  needsResolution: rarely,
  approvalsRequired: fc.constantFrom(0, 0, 0, 1),
  isApproved: fc.boolean(),
  sha: fc.constantFrom('none', 'head', 'head', 'another'),
});

export const cases = fc.record({ situation: situations, history: histories });

interface World {
  readonly owner: TestUser;
  readonly maintainer: TestUser;
  readonly developer: TestUser;
  /** A folder for work trees. */
  readonly tree: string;
}

export const makeWorld = async (app: TestApp, folder: string): Promise<World> => ({
  owner: await app.make.user(),
  maintainer: await app.make.user(),
  developer: await app.make.user(),
  tree: await startHistory(folder),
});

/** Levels of `push` and `merge` for the target branch. */
const LEVELS = {
  'developers merge': { push_access_level: 40, merge_access_level: 30 },
  'maintainers only': { push_access_level: 40, merge_access_level: 40 },
  'maintainers merge, no one pushes': { push_access_level: 0, merge_access_level: 40 },
} as const;

/** Brings a project into the situation, merges, and compares everything with the model and with plain git. */
export const checkCase = async (
  app: TestApp,
  world: World,
  { situation, history }: { readonly situation: Situation; readonly history: History },
): Promise<void> => {
  const { owner, maintainer, developer, tree } = world;
  const project = await app.make.project(
    {
      merge_method: situation.method,
      squash_option: situation.squash_option,
      only_allow_merge_if_pipeline_succeeds: situation.needsPipeline,
      allow_merge_on_skipped_pipeline: situation.skippedIsEnough,
      only_allow_merge_if_all_discussions_are_resolved: situation.needsResolution,
    },
    owner,
  );
  await app.make.projectMember(project, maintainer, 40);
  await app.make.projectMember(project, developer, 30);
  const [client, path] = [app.as(owner), `/projects/${project.id}`];
  const made = await makeHistory(tree, history, { source: 'source', target: 'target' });
  const remote = await remoteOf(app, project, owner);
  await pushTree(app, project, owner, tree, 'main', 'source', 'target');
  const { db } = app.hub.services;
  if (situation.protection !== 'none') {
    const { status } = await client.post(`${path}/protected_branches`, {
      name: 'target',
      ...LEVELS[situation.protection],
    });
    expect(status).toBe(201);
  }
  if (situation.approvalsRequired > 0) {
    const rule = { name: 'Everyone', rule_type: 'any_approver', approvals_required: situation.approvalsRequired };
    await insertRule(app, { project_id: project.id }, rule);
  }
  if (situation.pipeline !== 'none') {
    const isOld = situation.pipeline === 'of an older commit';
    const status = isOld ? 'success' : situation.pipeline;
    const sha = isOld ? await runGit(tree, 'rev-parse', 'main') : made.head;
    // A branch without commits of its own has the head that it starts from.
    if (sha !== made.head || !isOld) await insertPipeline(db, { project_id: project.id, ref: 'source', sha, status });
  }
  const title = `${situation.draft ? 'Draft: ' : ''}Merge something`;
  const opened = await client.post(`${path}/merge_requests`, {
    source_branch: 'source',
    target_branch: 'target',
    title,
    ...(situation.squashOnCreation === undefined ? {} : { squash: situation.squashOnCreation }),
  });
  expect(opened.status).toBe(201);
  const at = `${path}/merge_requests/1`;
  if (situation.hasOpenThread) {
    await db
      .insertInto('notes')
      .values({
        project_id: project.id,
        noteable_type: 'MergeRequest',
        merge_request_id: opened.body.id,
        type: 'DiscussionNote',
        discussion_id: 'd'.repeat(40),
        note: 'Why?',
        author_id: maintainer.id,
      })
      .execute();
  }
  await app.settle();
  if (situation.isApproved) expect((await app.as(maintainer).post(`${at}/approve`)).status).toBe(201);
  const before = (await client.get(at)).body;
  expect(before.detailed_merge_status).toBe(expectedStatus(situation, made));

  const merger = app.as(situation.isDeveloper ? developer : maintainer);
  const answer = await merger.put(`${at}/merge`, {
    ...(situation.squashOnMerge === undefined ? {} : { squash: situation.squashOnMerge }),
    ...(situation.squashMessage === undefined ? {} : { squash_commit_message: situation.squashMessage }),
    ...(situation.sha === 'none' ? {} : { sha: situation.sha === 'head' ? made.head : 'b'.repeat(40) }),
  });
  expect(answer).toMatchObject({ status: expectedAnswer(situation, made) });
  await runGit(tree, 'fetch', '-q', '-f', remote, '+target:refs/merged');
  const tip = await runGit(tree, 'rev-parse', 'refs/merged');
  if (answer.status !== 200) {
    expect(tip).toBe(made.start);
    expect((await client.get(at)).body.state).toBe('opened');
    return;
  }
  expect(answer.body).toMatchObject({
    state: 'merged',
    merge_user: { username: merger === client ? owner.username : expect.any(String) },
  });
  await checkCommits(tree, tip, made, situation, answer.body);
};

const checkCommits = async (
  tree: string,
  tip: string,
  made: Made,
  situation: Situation,
  record: { readonly merge_commit_sha: string | null; readonly squash_commit_sha: string | null },
): Promise<void> => {
  const parentsOf = async (commit: string) =>
    (await runGit(tree, 'rev-list', '--parents', '-1', commit)).split(' ').slice(1);
  const expected = expectedCommits(situation, made);
  // Whatever the method, the files are those of a merge by plain git.
  expect(await runGit(tree, 'rev-parse', `${tip}^{tree}`)).toBe(made.tree);
  expect(record.merge_commit_sha).toBe(expected.merge ? tip : null);
  const landed = expected.merge ? (await parentsOf(tip))[1] : tip;
  if (expected.merge) expect((await parentsOf(tip))[0]).toBe(made.start);
  if (!expected.squash) {
    expect(landed).toBe(made.head);
    expect(record.squash_commit_sha).toBeNull();
    return;
  }
  expect(record.squash_commit_sha).toBe(landed);
  const message = await runGit(tree, 'log', '-1', '--format=%B', landed ?? '');
  expect(message.trim()).toBe(situation.squashMessage ?? 'Merge something');
  expect(await parentsOf(landed ?? '')).toHaveLength(1);
};
