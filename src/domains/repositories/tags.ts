import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { type RefUpdate, type Tag, tagRef } from './model.ts';
import { judgePush } from './policy.ts';
import { resolveRevision } from './queries/revisions.ts';
import { getTag } from './queries/tags.ts';
import { callerIdentity, refusal, requireMove, writeRef } from './writing.ts';

interface NewTag {
  readonly tag: string;
  /** A branch, tag or commit. */
  readonly ref: string;
  /** Makes the tag annotated, with the caller as its tagger. */
  readonly message?: string | null | undefined;
}

/**
 * Creates a tag. Protection and events are as for a push.
 *
 * @throws DomainError `forbidden`, `bad_request` for a bad or taken name and for a missing start
 */
export const createTag = async (ctx: Context, project: ProjectRow, { tag, ref, message }: NewTag): Promise<Tag> => {
  requireAbility(ctx, project, 'push_code');
  if (!validRefName(tag)) throw refusal('Tag name invalid');
  const { git } = ctx.services;
  const commit = ref === '' ? null : await resolveRevision(ctx, project, ref);
  if (commit === null) throw refusal(`Target ${ref} is invalid`);
  await writeRef(ctx, project, async (current) => {
    const update: RefUpdate = { ref: tagRef(tag), oldOid: null, newOid: commit };
    if ((await git.resolve(current.disk_path, update.ref)) !== null) throw refusal(`Tag ${tag} already exists`);
    const { judge } = await requireMove(ctx, current, update);
    if (message == null || message === '') {
      await judge(commit, git.newObjects(current.disk_path));
      return update;
    }
    const tagger = await callerIdentity(ctx);
    const newOid = await git.createTagObject(current.disk_path, { name: tag, commit, message, tagger }, judge);
    return { ...update, newOid };
  });
  return getTag(ctx, project, tag);
};

/**
 * Deletes a tag. Its release is deleted soon after.
 *
 * @throws DomainError `forbidden` if it is protected, `not_found` (Tag)
 */
export const deleteTag = async (ctx: Context, project: ProjectRow, name: string): Promise<Tag> => {
  requireAbility(ctx, project, 'push_code');
  const tag = await getTag(ctx, project, name);
  await writeRef(ctx, project, async (current) => {
    const ref = tagRef(name);
    const oldOid = await ctx.services.git.resolve(current.disk_path, ref);
    if (oldOid === null) throw notFound('Tag');
    const update: RefUpdate = { ref, oldOid, newOid: null };
    await requireMove(ctx, current, update);
    return update;
  });
  return tag;
};

/** Returns why the caller may not create the tag, or null. Releases of protected tags follow the same rules. */
export const refusalOfTagName = async (ctx: Context, project: ProjectRow, tag: string): Promise<string | null> => {
  const update: RefUpdate = { ref: tagRef(tag), oldOid: null, newOid: '0'.repeat(40) };
  const [refused] = (await judgePush(ctx, project, [update], null)).refused ?? [];
  return refused?.reason ?? null;
};
