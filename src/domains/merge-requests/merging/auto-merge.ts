import { sql } from 'kysely';
import { z } from 'zod';
import { differences } from '#domains/planning/changes.ts';
import { recordSystemNote } from '#domains/planning/system-notes.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { type Context, inNameOf, type Tx } from '#platform/context.ts';
import { unauthenticated } from '#platform/errors.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { mergeRequestUpdated } from '../events.ts';
import { lockInProject } from '../locking.ts';
import type { Merge } from '../merging.ts';
import { squashOnMerge } from '../model.ts';
import { mayMerge } from '../policy.ts';
import { getMergeRequest, type MergeRequestRow } from '../queries.ts';
import { emitMergeRequest } from '../snapshot.ts';

// Auto-merge is a state of the merge request: `merge_when_pipeline_succeeds`, who has set it (`merge_user_id`), and how
// to merge (`merge_params`). The follower `merge_requests.auto_merge` decides when to merge (follow-auto-merges.ts).

export const AUTO_MERGE_STRATEGY = 'merge_when_checks_pass';

/** `merge_params` while auto-merge is set. The names are those of v4 clients. */
const paramsSchema = z.object({
  sha: z.string(),
  commit_message: z.string().optional(),
  squash_commit_message: z.string().optional(),
  should_remove_source_branch: z.boolean().optional(),
  squash: z.boolean().optional(),
  auto_merge_strategy: z.string(),
});
const PARAMS = Object.keys(paramsSchema.shape);

/** Returns how to merge, or null if auto-merge was set by something else, such as an import. */
export const autoMergeOf = ({ merge_params }: Pick<MergeRequestRow, 'merge_params'>): Merge | null => {
  const { data } = paramsSchema.safeParse(merge_params);
  return data
    ? {
        sha: data.sha,
        merge_commit_message: data.commit_message,
        squash_commit_message: data.squash_commit_message,
        should_remove_source_branch: data.should_remove_source_branch,
        squash: data.squash,
      }
    : null;
};

/**
 * Merges the merge request later, as the caller, once nothing is in the way. Returns null if it has changed since it was
 * read.
 */
export const scheduleAutoMerge = (
  ctx: Context,
  seen: ProjectRow,
  row: MergeRequestRow,
  input: Merge,
): Promise<MergeRequestRow | null> =>
  ctx.transaction(async (tx) => {
    const { project, row: before } = await lockInProject(tx, seen, row);
    const { state, diff_head_sha: sha, target_branch } = before;
    if (state !== 'opened' || sha === null || sha !== row.diff_head_sha || target_branch !== row.target_branch)
      return null;
    if (!(await mayMerge(tx, project, target_branch))) throw unauthenticated();
    const params: z.output<typeof paramsSchema> = {
      sha,
      commit_message: input.merge_commit_message,
      squash_commit_message: input.squash_commit_message,
      should_remove_source_branch: input.should_remove_source_branch,
      squash: input.squash,
      auto_merge_strategy: AUTO_MERGE_STRATEGY,
    };
    // Options of an auto-merge that is set already stay unless the caller gives others.
    const isSet = before.merge_when_pipeline_succeeds;
    const removes = input.should_remove_source_branch ?? (isSet ? before.should_remove_source_branch : null);
    await tx.db
      .updateTable('merge_requests')
      .set({
        merge_when_pipeline_succeeds: true,
        merge_user_id: tx.actor.userId,
        merge_params: sql`(merge_params - ${isSet ? [] : PARAMS}::text[]) || ${toJsonb(params)}::jsonb`,
        // Callers read in the answer what will happen.
        should_remove_source_branch: removes,
        ...(input.squash === undefined ? {} : { squash: squashOnMerge({ squash: input.squash }, project) }),
        merge_error: null,
        updated_at: sql`now()`,
      })
      .where('id', '=', row.id)
      .execute();
    await recordSystemNote(
      tx,
      { merge_request_id: row.id },
      'merge',
      `enabled an automatic merge when all merge checks for ${sha} pass`,
    );
    return emitChange(tx, project, before);
  });

/**
 * Takes auto-merge back, if it is set.
 *
 * @param reason why the hub does so, to complete "because ..."; absent if a person does
 */
export const endAutoMerge = async (
  tx: Tx,
  project: ProjectRow,
  before: MergeRequestRow,
  reason?: string,
): Promise<MergeRequestRow> => {
  if (!before.merge_when_pipeline_succeeds) return before;
  // Clients expect somebody behind each note.
  const user = tx.actor.userId === null ? inNameOf(tx, before.merge_user_id) : tx;
  await tx.db
    .updateTable('merge_requests')
    .set({
      merge_when_pipeline_succeeds: false,
      merge_user_id: null,
      merge_params: sql`merge_params - ${PARAMS}::text[]`,
      should_remove_source_branch: null,
      updated_at: sql`now()`,
    })
    .where('id', '=', before.id)
    .execute();
  await recordSystemNote(
    user,
    { merge_request_id: before.id },
    'merge',
    reason === undefined ? 'canceled the automatic merge' : `aborted the automatic merge because ${reason}`,
  );
  return emitChange(user, project, before);
};

const emitChange = async (tx: Tx, project: ProjectRow, before: MergeRequestRow): Promise<MergeRequestRow> => {
  const after = await getMergeRequest(tx, project, before.iid);
  const { merge_when_pipeline_succeeds, merge_user_id, squash } = after;
  const changes = differences({ ...before }, { merge_when_pipeline_succeeds, merge_user_id, squash });
  await emitMergeRequest(tx, mergeRequestUpdated, project, after, changes);
  return after;
};

/**
 * Cancels auto-merge. For everyone who can merge, and for the author. Returns null if it is not set.
 *
 * @throws DomainError `unauthenticated` for others
 */
export const cancelAutoMerge = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
): Promise<MergeRequestRow | null> => {
  const isAuthor = given.author_id !== null && given.author_id === ctx.actor.userId;
  if (!isAuthor && !(await mayMerge(ctx, seen, given.target_branch))) throw unauthenticated();
  return ctx.transaction(async (tx) => {
    const { project, row: before } = await lockInProject(tx, seen, given);
    if (!isAuthor && !(await mayMerge(tx, project, before.target_branch))) throw unauthenticated();
    if (!before.merge_when_pipeline_succeeds || before.state !== 'opened') return null;
    return endAutoMerge(tx, project, before);
  });
};
