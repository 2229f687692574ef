import { sql } from 'kysely';
import { z } from 'zod';
import { mergeRequestsByIds } from '#domains/merge-requests/queries.ts';
import { recordSystemNotes } from '#domains/planning/system-notes.ts';
import { findProject } from '#domains/projects/queries.ts';
import { type Context, inNameOf, systemActor } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';
import { getNoteable, type Noteable } from './noteable.ts';
import { type Position, readPosition } from './positions/model.ts';
import { type Traced, tracePositions, type Version } from './positions/trace.ts';
import { setResolved } from './resolving.ts';
import { markOutdated, outdatedSuggestions } from './suggestions/outdating.ts';

/** Comments that are traced and written at once. */
const BATCH = 500;
/** Paths are arguments of git. These fit, however long they are. */
const POSITIONS_AT_ONCE = 50;

/** Events after which a merge request may have a new version. */
const KINDS = ['merge_request.prepared', 'merge_request.updated', 'merge_request.checked', 'merge_request.reopened'];

/** Moves comments on lines to the newest version of their merge request. */
export const followVersions = defineFollower({
  name: 'notes.versions',
  payloads: false,
  wants: ({ kind }) => KINDS.includes(kind),
  handle: async (tx, events) => {
    // Most of these merge requests have no comments on an older version.
    const { rows } = await sql<{ id: number }>`
      select mr.id from merge_requests mr
      join merge_request_diffs latest on latest.merge_request_id = mr.id and latest.is_latest
      where mr.id = any (${events.map(({ subject_id }) => subject_id)}::bigint[]) and exists (
        select from notes where notes.merge_request_id = mr.id and ${isBehind})`.execute(tx.db);
    for (const { id } of rows)
      tx.enqueue(followVersion, { merge_request_id: id }, { key: `notes.follow_version:${id}` });
  },
});

/** Requires that the row `notes` is a comment on another version than the row `latest`, and is not outdated. */
const isBehind = sql<boolean>`notes.type = 'DiffNote' and not notes.system and notes.commit_id is null
  and notes.change_position is null and (notes.position ->> 'head_sha' <> latest.head_commit_sha
    or notes.position ->> 'base_sha' <> latest.base_commit_sha)`;

/**
 * The job `notes.follow_version`: finds the lines of comments in the newest version. Threads on changed lines become
 * outdated, and are resolved if the project says so (reference: merge-requests §2). It may run twice.
 */
export const followVersion = defineJob({
  name: 'notes.follow_version',
  input: z.object({ merge_request_id: z.number() }),
  maxAttempts: 8,
  long: true,
  run: async (ctx, { merge_request_id }) => {
    const hub = { ...ctx, actor: systemActor };
    const row = (await mergeRequestsByIds(hub, [merge_request_id])).get(merge_request_id);
    const project = row && (await findProject(hub, { id: row.project_id }));
    const version = await latestVersion(ctx, merge_request_id);
    if (!row || !project || !version) return;
    const noteable = await getNoteable(hub, project, 'merge_request', row.iid);
    let after = 0;
    for (;;) {
      const notes = await notesBehind(ctx, merge_request_id, after);
      const last = notes.at(-1);
      if (!last) return;
      after = last.id;
      const traced = await traceAll(ctx, project.disk_path, version.refs, notes);
      await move(ctx, noteable, version.number, traced);
    }
  },
});

interface NoteBehind {
  readonly id: number;
  readonly discussion_id: string;
  readonly confidential: boolean;
  readonly position: unknown;
}

const notesBehind = async (ctx: Context, id: number, after: number): Promise<NoteBehind[]> => {
  const { rows } = await sql<NoteBehind>`
    select notes.id, notes.discussion_id, notes.confidential, notes.position from notes
    join merge_request_diffs latest on latest.merge_request_id = notes.merge_request_id and latest.is_latest
    where notes.merge_request_id = ${id} and notes.id > ${after} and ${isBehind}
    order by notes.id limit ${sql.lit(BATCH)}`.execute(ctx.db);
  return rows;
};

/** Null if there is nothing to compare with. */
const latestVersion = async (
  ctx: Context,
  id: number,
): Promise<{ readonly number: number; readonly refs: Version } | null> => {
  const versions = await ctx.db
    .selectFrom('merge_request_diffs')
    .select(['base_commit_sha', 'start_commit_sha', 'head_commit_sha'])
    .select(({ fn }) => fn.countAll<number>().over().as('number'))
    .where('merge_request_id', '=', id)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  const { base_commit_sha: base_sha, start_commit_sha: start_sha, head_commit_sha: head_sha } = versions ?? {};
  if (!versions || !base_sha || !start_sha || !head_sha) return null;
  return { number: versions.number, refs: { base_sha, start_sha, head_sha } };
};

interface TracedNote {
  readonly note: NoteBehind;
  readonly traced: Traced;
}

/** Traces each distinct position once. Leaves out positions that imports brought in another form. */
const traceAll = async (
  ctx: Context,
  diskPath: string,
  to: Version,
  notes: readonly NoteBehind[],
): Promise<TracedNote[]> => {
  const found: TracedNote[] = [];
  const readable = notes.flatMap((note) => {
    const position = readPosition(note.position);
    return position?.base_sha && position.start_sha ? [{ note, position }] : [];
  });
  const byVersion = Map.groupBy(readable, ({ position }) => `${position.base_sha} ${position.head_sha}`);
  for (const group of byVersion.values()) {
    const byPosition = [...Map.groupBy(group, ({ position }) => JSON.stringify(position)).values()];
    for (let at = 0; at < byPosition.length; at += POSITIONS_AT_ONCE) {
      const some = byPosition.slice(at, at + POSITIONS_AT_ONCE);
      const positions = some.flatMap(([first]) => (first ? [first.position] : []));
      const [first] = positions;
      if (!first) continue;
      const from = { base_sha: first.base_sha ?? '', start_sha: first.start_sha ?? '', head_sha: first.head_sha };
      if (!(await areHere(ctx, diskPath, [from.base_sha, from.head_sha]))) continue;
      const traced = await tracePositions(ctx, diskPath, { from, to }, positions);
      for (const [index, same] of some.entries()) {
        const result = traced[index];
        if (result) found.push(...same.map(({ note }) => ({ note, traced: result })));
      }
    }
  }
  return found;
};

/** The commits of an imported merge request may be missing. */
const areHere = async (ctx: Context, diskPath: string, oids: readonly string[]): Promise<boolean> => {
  const known = oids.filter((oid) => /^[0-9a-f]{40}$/.test(oid));
  const wanted = new Set(oids);
  return (
    known.length === oids.length && (await ctx.services.git.readCommits(diskPath, [...wanted])).length === wanted.size
  );
};

const move = async (ctx: Context, noteable: Noteable, versionNumber: number, traced: readonly TracedNote[]) => {
  const { id, project, mergeRequest } = noteable;
  const moved = traced.flatMap(({ note, traced: to }) => ('position' in to ? [{ note, to: to.position }] : []));
  const outdated = traced.flatMap(({ note, traced: to }) => ('change' in to ? [{ note, to: to.change }] : []));
  const placed = moved.map(({ note, to }) => ({ id: note.id, position: to }));
  const suggestions = await outdatedSuggestions(ctx, project.disk_path, placed);
  await ctx.transaction(async (tx) => {
    await markOutdated(tx, suggestions);
    if (moved.length > 0) {
      await sql`
        update notes set position = moved.position from (${rowsOf(moved)}) as moved
        where notes.id = moved.id and notes.change_position is null`.execute(tx.db);
    }
    if (outdated.length === 0) return;
    const threads = new Map(outdated.map(({ note }) => [note.discussion_id, note]));
    const known = await tx.db
      .selectFrom('notes')
      .select('discussion_id')
      .where('merge_request_id', '=', id)
      .where('change_position', 'is not', null)
      .where(sql<boolean>`discussion_id = any (${[...threads.keys()]}::text[])`)
      .execute();
    for (const { discussion_id } of known) threads.delete(discussion_id);
    await sql`
      update notes set change_position = changed.position from (${rowsOf(outdated)}) as changed
      where notes.id = changed.id and notes.change_position is null`.execute(tx.db);
    const author = inNameOf(tx, mergeRequest?.author_id ?? null);
    await recordSystemNotes(
      author,
      { merge_request_id: id },
      [...threads.values()].map(({ discussion_id, confidential }) => ({
        action: 'outdated',
        body: `changed this line in version ${versionNumber} of the diff`,
        discussion_id,
        internal: confidential,
      })),
    );
    if (project.resolve_outdated_diff_discussions) {
      await setResolved(author, noteable, { discussionIds: [...threads.keys()] }, true);
    }
  });
};

const rowsOf = (moves: readonly { readonly note: NoteBehind; readonly to: Position }[]) => {
  const ids = moves.map(({ note }) => note.id);
  const positions = moves.map(({ to }) => JSON.stringify(to));
  return sql`select * from unnest(${ids}::bigint[], ${positions}::jsonb[]) as given (id, position)`;
};
