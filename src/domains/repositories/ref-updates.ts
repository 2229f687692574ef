import { sql } from 'kysely';
import { projectScope } from '#domains/projects/model.ts';
import { protectDefaultBranch } from '#domains/projects/protection.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { hookProject, hookPushRepository } from '#domains/projects/webhook.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import type { ChangedFiles } from '#platform/git/history.ts';
import { type MovedRef, type PushedCommit, pushReceived, repositoryUpdated, tagPushed } from './events.ts';
import { BRANCHES, branchName, branchRef, type Commit, type RefUpdate, tagName } from './model.ts';
import { codeAudience, firstBranch } from './policy.ts';
import { matching, type Protections, readProtections } from './protections.ts';
import type { PushOptions } from './push-options.ts';
import { findReadme } from './readme.ts';
import { refreshStatisticsLater } from './upkeep.ts';
import { hookCommit } from './webhook.ts';

/** The facts in git about moved refs. They are read before the transaction, because it may take a while. */
export interface UpdateDetails {
  readonly updates: readonly RefUpdate[];
  readonly commits: ReadonlyMap<string, { readonly commits: readonly PushedCommit[]; readonly total: number | null }>;
  readonly tags: ReadonlyMap<string, TagDetails>;
}

interface TagDetails {
  readonly commit: string;
  readonly message: string | null;
  /** Whether a branch points to that commit. */
  readonly isTip: boolean;
}

const LISTED_COMMITS = 20;
/** A push of more branches, such as a mirror, does not list commits. */
const MAX_LISTED_BRANCHES = 200;
const CONCURRENCY = 4;
const TAGS_AT_ONCE = 100;
/** Commits per git process when reading changed files. */
const COMMITS_READ = 100;
/** The number of refs that counts as one push for repacking (upkeep.ts). */
const REFS_OF_A_PUSH = 10;
/** The most files per commit in an event. */
const MAX_FILES = 1_000;

/** The commits that an update brings, newest first, by its new id. For callers who have read them. */
export type KnownCommits = ReadonlyMap<string, readonly Commit[]>;

export const describeUpdates = async (
  ctx: Context,
  project: ProjectRow,
  updates: readonly RefUpdate[],
  known: KnownCommits = new Map(),
): Promise<UpdateDetails> => {
  const { git } = ctx.services;
  const branches = updates.flatMap(({ newOid, ...update }) =>
    newOid !== null && branchName(update.ref) !== null ? [{ ...update, newOid }] : [],
  );
  const listed = branches.length > MAX_LISTED_BRANCHES ? [] : branches;
  const excludeRefs = updates.map(({ ref }) => ref);
  const commits = new Map<string, { commits: readonly PushedCommit[]; total: number | null }>();
  for (const { ref } of branches) commits.set(ref, { commits: [], total: null });
  const found = await mapLimit(listed, CONCURRENCY, async ({ ref, oldOid, newOid }) => {
    const all = known.get(newOid);
    if (all) return { ref, commits: all.slice(0, LISTED_COMMITS), total: all.length };
    const read = await git.newCommits(project.disk_path, newOid, oldOid, { limit: LISTED_COMMITS, excludeRefs });
    return { ref, ...read };
  });
  const ids = [...new Set(found.flatMap(({ commits }) => commits.map(({ id }) => id)))];
  const changes = new Map<string, ChangedFiles>();
  for (let at = 0; at < ids.length; at += COMMITS_READ) {
    const read = await git.changedFiles(project.disk_path, ids.slice(at, at + COMMITS_READ));
    for (const [id, files] of read) changes.set(id, files);
  }
  for (const { ref, commits: newest, total } of found) {
    // Receivers expect the newest commit last.
    const listed = newest.map((commit) => pushedCommit(ctx, project, commit, changes.get(commit.id))).reverse();
    commits.set(ref, { commits: listed, total });
  }
  return { updates, commits, tags: await describeTags(ctx, project, updates) };
};

const describeTags = async (
  { services: { git } }: Context,
  { disk_path, default_branch }: ProjectRow,
  updates: readonly RefUpdate[],
): Promise<UpdateDetails['tags']> => {
  const tags = updates.flatMap(({ ref, newOid }) =>
    newOid === null || tagName(ref) === null ? [] : [{ ref, newOid }],
  );
  if (tags.length === 0) return new Map();
  const objects = await git.readTagObjects(
    disk_path,
    tags.map(({ newOid }) => newOid),
  );
  const messages = new Map(objects.map(({ id, message }) => [id, message]));
  const peeled = await mapLimit(tags, TAGS_AT_ONCE, async ({ ref, newOid }) => ({
    ref,
    newOid,
    commit: (await git.commitBefore(disk_path, newOid, [])) ?? newOid,
  }));
  // Most tags name the tip of the default branch. Only others need all branches.
  const tip = default_branch === null ? null : await git.resolve(disk_path, branchRef(default_branch));
  const tips = peeled.every(({ commit }) => commit === tip)
    ? new Set([tip])
    : new Set((await git.listRefs(disk_path, { prefix: BRANCHES })).map(({ oid }) => oid));
  return new Map(
    peeled.map(({ ref, newOid, commit }) => [
      ref,
      { commit, message: messages.get(newOid) ?? null, isTip: tips.has(commit) },
    ]),
  );
};

const pushedCommit = (
  ctx: Context,
  project: ProjectRow,
  commit: Commit,
  changes: ChangedFiles | undefined,
): PushedCommit => ({
  ...hookCommit(ctx, project, commit),
  added: [...(changes?.added ?? []).slice(0, MAX_FILES)],
  modified: [...(changes?.modified ?? []).slice(0, MAX_FILES)],
  removed: [...(changes?.removed ?? []).slice(0, MAX_FILES)],
});

/** Returns a context that reads as the hub itself, because the pusher may have lost access meanwhile. */
export const asHub = (ctx: Context): Context => ({ ...ctx, actor: systemActor });

/** Emits the events of the moved refs and updates the project's row. */
export const recordUpdates = async (
  tx: Tx,
  projectId: number,
  described: UpdateDetails,
  options: PushOptions = {},
): Promise<void> => {
  const { updates } = described;
  if (updates.length === 0) return;
  // A push of many refs leaves many files, as many pushes do.
  const weight = Math.ceil(updates.length / REFS_OF_A_PUSH);
  await sql`
    with locked as materialized (select id from projects where id = ${projectId} for no key update)
    insert into repository_upkeep (project_id, pushes_since_gc) select id, ${weight}::int from locked
    on conflict (project_id) do update set
      pushes_since_gc = repository_upkeep.pushes_since_gc + excluded.pushes_since_gc`.execute(tx.db);
  const [before, { push_event_hooks_limit: limit }, users, found] = await Promise.all([
    findProject(asHub(tx), { id: projectId }),
    getSettings(tx),
    userSummariesByIds(tx, [tx.actor.userId]),
    readProtections(tx, projectId),
  ]);
  if (!before) return; // the project was deleted meanwhile
  const project = await updateProjectRow(tx, before, updates);
  // The first push may have protected the default branch.
  const protections = before.empty_repo ? await readProtections(tx, project.id) : found;
  const summary = users.get(tx.actor.userId ?? 0);
  const user = summary ? hookUser(tx, summary) : null;
  const place = {
    ...projectScope(project),
    subject: { type: 'Project', id: project.id },
    min_access_level: codeAudience(project),
  };
  const projectObject = hookProject(tx, project);
  const tagCount = updates.filter(({ ref }) => tagName(ref) !== null).length;
  const branchCount = updates.filter(({ ref }) => branchName(ref) !== null).length;
  for (const { ref, oldOid, newOid } of updates) {
    const tag = tagName(ref);
    // Other refs, such as notes, only appear in `repository.updated`.
    if (tag === null && branchName(ref) === null) continue;
    const fires_hooks = (tag === null ? branchCount : tagCount) <= limit;
    const payload: MovedRef = {
      ...toMovedRef(tx, project, described, { ref, oldOid, newOid }, protections),
      fires_hooks,
      ...(fires_hooks && Object.keys(options).length > 0 ? { push_options: options } : {}),
      user,
    };
    tx.emit(tag === null ? pushReceived : tagPushed, { ...place, payload });
  }
  tx.emit(repositoryUpdated, {
    ...place,
    payload: {
      user,
      project: projectObject,
      changes: updates.map(({ ref, oldOid, newOid }) => ({ ref, before: oldOid, after: newOid })),
      ...(Object.keys(options).length > 0 ? { hook_only: { push_options: options } } : {}),
    },
  });
  if (!updates.every((update) => bringsNothing(described, update, project))) {
    refreshStatisticsLater(tx, project.id);
  }
};

/** Returns whether the ref is new and only names commits that a branch contains. Statistics do not change then. */
const bringsNothing = (
  { commits, tags }: UpdateDetails,
  { ref, oldOid, newOid }: RefUpdate,
  { default_branch }: Pick<ProjectRow, 'default_branch'>,
): boolean => {
  if (oldOid !== null || newOid === null || ref === branchRef(default_branch ?? '')) return false;
  const tag = tags.get(ref);
  return tag ? tag.commit === newOid && tag.isTip : commits.get(ref)?.total === 0;
};

/** Returns a moved ref as events carry it, without the user. */
export const toMovedRef = (
  ctx: Context,
  project: ProjectRow,
  described: UpdateDetails,
  { ref, oldOid, newOid }: RefUpdate,
  protections: Protections,
): Omit<MovedRef, 'fires_hooks' | 'push_options' | 'user'> => {
  const tag = tagName(ref);
  const pushed = described.commits.get(ref);
  const tagged = described.tags.get(ref);
  const name = tag ?? branchName(ref) ?? ref;
  return {
    ref,
    before: oldOid,
    after: newOid,
    checkout_sha: newOid === null ? null : (tagged?.commit ?? newOid),
    ref_protected: matching(tag === null ? protections.branches : protections.tags, name).length > 0,
    message: newOid === null ? null : (tagged?.message ?? null),
    commits: [...(pushed?.commits ?? [])],
    total_commits_count: pushed ? pushed.total : 0,
    project: hookProject(ctx, project),
    repository: hookPushRepository(ctx, project),
  };
};

/** Updates emptiness, default branch and readme in the project's row, which the caller has locked. */
const updateProjectRow = async (tx: Tx, before: ProjectRow, updates: readonly RefUpdate[]): Promise<ProjectRow> => {
  const first = firstBranch(before, updates);
  const default_branch = first ?? before.default_branch;
  const ofDefault = updates.find(({ ref }) => ref === branchRef(default_branch ?? ''));
  const leavesBranch = updates.some(({ ref, newOid }) => newOid !== null && branchName(ref) !== null);
  const wanted = {
    empty_repo: !leavesBranch && !(await hasBranches(tx, before)),
    default_branch,
    readme_path: ofDefault ? await findReadme(tx, before.disk_path, ofDefault.newOid) : before.readme_path,
  };
  const same =
    wanted.empty_repo === before.empty_repo &&
    wanted.default_branch === before.default_branch &&
    wanted.readme_path === before.readme_path;
  if (same) return before;
  // All three are part of the project record.
  await tx.db
    .updateTable('projects')
    .set({ ...wanted, updated_at: sql`now()` })
    .where('id', '=', before.id)
    .execute();
  if (first !== null && first !== before.default_branch) await moveDefaultBranch(tx, before, first);
  return { ...before, ...wanted };
};

/** Lists the branches only if the default branch does not exist, because listing reads all of them. */
const hasBranches = async (
  { services: { git } }: Tx,
  { disk_path, default_branch }: Pick<ProjectRow, 'disk_path' | 'default_branch'>,
): Promise<boolean> =>
  (default_branch !== null && (await git.resolve(disk_path, branchRef(default_branch))) !== null) ||
  (await git.listRefs(disk_path, { prefix: BRANCHES, limit: 1 })).length > 0;

/** The first branch is not the configured default branch. Moves HEAD and the protection to it. */
const moveDefaultBranch = async (tx: Tx, project: ProjectRow, branch: string): Promise<void> => {
  await tx.db
    .updateTable('protected_branches')
    .set({ name: branch, updated_at: sql`now()` })
    .where('project_id', '=', project.id)
    .where('name', '=', project.default_branch ?? '')
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('protected_branches as other')
            .select('other.id')
            .where('other.project_id', '=', project.id)
            .where('other.name', '=', branch),
        ),
      ),
    )
    .execute();
  await protectDefaultBranch(tx, project, branch);
  await tx.services.git.setHead(project.disk_path, branch);
};
