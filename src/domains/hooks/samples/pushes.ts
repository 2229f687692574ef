import type { ProjectRow } from '#domains/projects/queries.ts';
import { type HookedProject, hookProject, hookPushRepository } from '#domains/projects/webhook.ts';
import { type MovedRef, pushReceived, tagPushed } from '#domains/repositories/events.ts';
import type { RefUpdate } from '#domains/repositories/model.ts';
import { readProtections } from '#domains/repositories/protections.ts';
import { describeUpdates, toMovedRef } from '#domains/repositories/ref-updates.ts';
import { listTags } from '#domains/repositories/tags.ts';
import { hookCommit } from '#domains/repositories/webhook.ts';
import { hookUser } from '#domains/users/webhook.ts';
import { newestRepository, SAMPLE_PARENT, SAMPLE_SHA, type Scene, sampleCommit, someProject } from './scene.ts';

const COMMITS = 3;

/** Returns the body for a push of the newest commits of a default branch, or null if there are none. */
export const pushSample = async (scene: Scene): Promise<Record<string, unknown> | null> => {
  const project = await newestRepository(scene);
  const ref = `refs/heads/${project?.default_branch ?? ''}`;
  if (!project?.default_branch) return null;
  const { git } = scene.ctx.services;
  const newOid = await git.resolve(project.disk_path, ref);
  if (newOid === null) return null;
  const commits = await git.listCommits(project.disk_path, { from: newOid, limit: COMMITS + 1 });
  const oldOid = commits.length > 1 ? (commits.at(-1)?.id ?? null) : null;
  return pushBody(scene, project.id, await movedRef(scene, project, { ref, oldOid, newOid }));
};

/** Returns the body for the creation of the newest tag, or null if there is none. */
export const tagSample = async (scene: Scene): Promise<Record<string, unknown> | null> => {
  const project = await newestRepository(scene);
  if (!project) return null;
  const [tag] = await (await listTags(scene.ctx, project, {})).rows({ limit: 1 });
  if (!tag) return null;
  return tagBody(scene, project.id, await movedRef(scene, project, { ref: tag.name, oldOid: null, newOid: tag.oid }));
};

const movedRef = async ({ ctx, caller }: Scene, project: ProjectRow, update: RefUpdate): Promise<MovedRef> => {
  const described = await describeUpdates(ctx, project, [update]);
  return {
    ...toMovedRef(ctx, project, described, update, await readProtections(ctx, project.id)),
    fires_hooks: true,
    user: caller && hookUser(ctx, caller),
  };
};

export const samplePush = async (scene: Scene): Promise<Record<string, unknown> | null> => {
  const project = await someProject(scene);
  return pushBody(scene, project.id, sampleRef(scene, project, `refs/heads/${project.default_branch ?? 'main'}`));
};

export const sampleTag = async (scene: Scene): Promise<Record<string, unknown> | null> => {
  const project = await someProject(scene);
  return tagBody(scene, project.id, { ...sampleRef(scene, project, 'refs/tags/v1.0.0'), before: null, commits: [] });
};

const sampleRef = (scene: Scene, project: HookedProject, ref: string): MovedRef => {
  const { ctx, caller } = scene;
  const commit = hookCommit(ctx, project, sampleCommit(scene));
  return {
    ref,
    before: SAMPLE_PARENT,
    after: SAMPLE_SHA,
    checkout_sha: SAMPLE_SHA,
    ref_protected: false,
    message: null,
    commits: [{ ...commit, added: ['docs/sample.md'], modified: ['README.md'], removed: [] }],
    total_commits_count: 1,
    fires_hooks: true,
    user: caller && hookUser(ctx, caller),
    project: hookProject(ctx, project),
    repository: hookPushRepository(ctx, project),
  };
};

const bodyOf =
  (definition: typeof pushReceived) =>
  async (scene: Scene, projectId: number, payload: MovedRef): Promise<Record<string, unknown> | null> =>
    (await definition.webhook?.body(scene.ctx, asEvent(scene, projectId), payload)) ?? null;

const pushBody = bodyOf(pushReceived);
const tagBody = bodyOf(tagPushed);

const asEvent = ({ caller, now }: Scene, projectId: number) => ({
  id: 0,
  position: 0,
  kind: '',
  actor_id: caller?.id ?? null,
  subject_type: 'Project',
  subject_id: projectId,
  project_id: projectId,
  namespace_ids: [],
  visibility_level: null,
  min_access_level: null,
  user_ids: [],
  payload: null,
  chain_id: null,
  created_at: now,
});
