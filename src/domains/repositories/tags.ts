import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, DomainError, forbidden } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { type RefUpdate, tagRef } from './model.ts';
import { judgePush } from './policy.ts';
import { moveRefs } from './pushes.ts';

/**
 * Makes a lightweight tag of a branch, tag or commit, as a push would: with the same protection and events.
 *
 * @throws DomainError `forbidden`, `bad_request` for a bad or taken name and for a start that is not there
 */
export const createTag = async (
  ctx: Context,
  project: ProjectRow,
  { tag, ref }: { readonly tag: string; readonly ref: string },
): Promise<void> => {
  requireAbility(ctx, project, 'push_code');
  if (!validRefName(tag)) throw badRequest('the tag name is invalid');
  const { git } = ctx.services;
  const newOid = await git.resolveCommit(project.disk_path, ref);
  if (newOid === null) throw badRequest(`there is no branch, tag or commit ${ref}`);
  const update: RefUpdate = { ref: tagRef(tag), oldOid: null, newOid };
  const [refused] = (await judgePush(ctx, project, [update], git.newObjects(project.disk_path))).refused ?? [];
  if (refused) throw forbidden(refused.reason);
  try {
    await moveRefs(ctx, project, [update]);
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== 'conflict') throw error;
    throw badRequest('the tag is there already, or its name clashes with that of another one');
  }
};

/** What protects the tag from being made by the caller, or null. Releases of protected tags follow the same rules. */
export const refusalOfTagName = async (ctx: Context, project: ProjectRow, tag: string): Promise<string | null> => {
  const update: RefUpdate = { ref: tagRef(tag), oldOid: null, newOid: '0'.repeat(40) };
  const [refused] = (await judgePush(ctx, project, [update], null)).refused ?? [];
  return refused?.reason ?? null;
};
