import { sql } from 'kysely';
import pg from 'pg';
import type { ProjectRow } from '#domains/projects/model.ts';
import { tagRef } from '#domains/repositories/model.ts';
import { createTag } from '#domains/repositories/tags.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, conflict, requireUnchanged } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { checkLinks, checkRelease, type NewLink } from './attributes.ts';
import { releaseCreated, releaseDeleted, releaseUpdated } from './events.ts';
import { insertLink } from './links.ts';
import { getRelease, type ReleaseRow } from './queries.ts';
import {
  type ChosenMilestones,
  chosenMilestones,
  lockForWrite,
  releaseEvent,
  requireWrite,
  setMilestones,
} from './write.ts';

export interface ReleaseAttributes extends ChosenMilestones {
  readonly name?: string | null | undefined;
  readonly description?: string | null | undefined;
  /** A future time makes it an upcoming release. */
  readonly released_at?: string | undefined;
}

export interface NewRelease extends ReleaseAttributes {
  readonly tag_name: string;
  /** The branch, tag or commit to create the tag from, if it does not exist. */
  readonly ref?: string | null | undefined;
  /** Creates an annotated tag with this message. */
  readonly tag_message?: string | null | undefined;
  readonly links?: readonly NewLink[] | undefined;
}

/**
 * Creates a release for a tag, and creates the tag from `ref` if it does not exist. Requires a Developer and, for a
 * protected tag, the right to create that tag.
 *
 * @throws DomainError `forbidden`, `bad_request`, `invalid` by attribute, `conflict` if the tag already has a release
 */
export const createRelease = async (ctx: Context, seen: ProjectRow, input: NewRelease): Promise<ReleaseRow> => {
  const { tag_name: tag, ref, tag_message: message, links = [], ...attributes } = input;
  await requireWrite(ctx, seen, tag);
  if (!validRefName(tag)) throw badRequest('the tag name is invalid');
  checkRelease(attributes);
  checkLinks(links);
  const milestones = await chosenMilestones(ctx, seen, attributes);
  if (await isReleased(ctx, seen, tag)) throw taken();
  const sha = await tagged(ctx, seen, { tag, ref, message });
  try {
    return await ctx.transaction(async (tx) => {
      const project = await lockForWrite(tx, seen, tag);
      const { id } = await tx.db
        .insertInto('releases')
        .values({
          project_id: project.id,
          tag,
          name: attributes.name ?? null,
          description: attributes.description ?? null,
          sha,
          author_id: ctx.actor.userId,
          ...(attributes.released_at === undefined ? {} : { released_at: attributes.released_at }),
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      for (const link of links) await insertLink(tx, id, link);
      if (milestones) await setMilestones(tx, id, milestones);
      const release = await getRelease(tx, project, tag);
      tx.emit(releaseCreated, await releaseEvent(tx, project, release));
      return release;
    });
  } catch (error) {
    const isTaken = error instanceof pg.DatabaseError && error.constraint === 'releases_project_id_tag_key';
    throw isTaken ? taken() : error;
  }
};

/**
 * Changes a release. Undefined attributes stay as they are; an empty list removes all milestones.
 *
 * @throws DomainError as `createRelease`, `not_found`
 */
export const updateRelease = async (
  ctx: Context,
  seen: ProjectRow,
  tag: string,
  changes: ReleaseAttributes,
): Promise<ReleaseRow> => {
  const { id } = await getRelease(ctx, seen, tag);
  await requireWrite(ctx, seen, tag);
  checkRelease(changes);
  const milestones = await chosenMilestones(ctx, seen, changes);
  const { name, description, released_at } = changes;
  return ctx.transaction(async (tx) => {
    const project = await lockForWrite(tx, seen, tag);
    await tx.db
      .updateTable('releases')
      .set({
        ...(name === undefined ? {} : { name }),
        ...(description === undefined ? {} : { description }),
        ...(released_at === undefined ? {} : { released_at }),
        updated_at: sql`now()`,
      })
      .where('id', '=', id)
      .execute();
    if (milestones) await setMilestones(tx, id, milestones);
    const release = await getRelease(tx, project, tag);
    tx.emit(releaseUpdated, await releaseEvent(tx, project, release));
    return release;
  });
};

/** Deletes a release. Its tag stays. @throws DomainError `not_found`, `forbidden`, `modified` */
export const deleteRelease = async (
  ctx: Context,
  seen: ProjectRow,
  tag: string,
  unchangedSince: Date | null = null,
): Promise<void> => {
  const release = await getRelease(ctx, seen, tag);
  await requireWrite(ctx, seen, tag);
  await ctx.transaction(async (tx) => removeRelease(tx, await lockForWrite(tx, seen, tag), release, unchangedSince));
};

/** Deletes the release without checking permissions. @throws DomainError `modified` */
export const removeRelease = async (
  tx: Tx,
  project: ProjectRow,
  release: ReleaseRow,
  unchangedSince: Date | null = null,
): Promise<void> => {
  const event = await releaseEvent(tx, project, release);
  const gone = await tx.db
    .deleteFrom('releases')
    .where('id', '=', release.id)
    .returning('updated_at')
    .executeTakeFirst();
  if (!gone) return;
  requireUnchanged(gone, unchangedSince);
  tx.emit(releaseDeleted, event);
};

const taken = () => conflict('Release already exists');

const isReleased = async (ctx: Context, project: ProjectRow, tag: string): Promise<boolean> =>
  (await ctx.db
    .selectFrom('releases')
    .select('id')
    .where('project_id', '=', project.id)
    .where('tag', '=', tag)
    .executeTakeFirst()) !== undefined;

/** Returns the commit of the tag. Creates the tag from `ref` if it does not exist. */
const tagged = async (
  ctx: Context,
  project: ProjectRow,
  {
    tag,
    ref,
    message,
  }: { readonly tag: string; readonly ref: NewRelease['ref']; readonly message: NewRelease['tag_message'] },
): Promise<string | null> => {
  const { git } = ctx.services;
  if ((await git.resolve(project.disk_path, tagRef(tag))) === null) {
    if (ref == null || ref === '') throw badRequest('ref is missing, and the tag does not exist');
    await createTag(ctx, project, { tag, ref, message });
  }
  const [found] = await git.listRefs(project.disk_path, {
    prefix: tagRef(''),
    match: (name) => tagRef(name) === tagRef(tag),
  });
  return found?.peeledOid ?? null;
};
