import { setTimeout as sleep } from 'node:timers/promises';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { commitEmail } from '#domains/users/model.ts';
import { getCurrentUser } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, forbidden } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import type { Identity, Judge } from '#platform/git/types.ts';
import { BRANCHES, type RefUpdate, TAGS, tagName } from './model.ts';
import { judgePush, readPushPolicy } from './policy.ts';
import { moveRefs } from './pushes.ts';

// What commits and tags made over the API have in common: they are held against the same rules as a push, and move
// refs as one.

/** A sentence of the tools' own, as it is (400). */
export const refusal = (message: string): DomainError => new DomainError('bad_request', message);

/** The caller as git knows him. */
export const callerIdentity = async (ctx: Context): Promise<Identity> => {
  const user = await getCurrentUser(ctx);
  return { name: user.name, email: commitEmail(ctx, user), date: ctx.clock.now() };
};

const SOME_OID = '0'.repeat(40);

interface PermittedMove {
  readonly fastForwardOnly: boolean;
  /** Holds the new commit or tag against the push rule. It throws `bad_request`. */
  readonly judge: Judge;
}

/**
 * Refuses what protection and names alone forbid, before any object is made: of `newOid` only null or not counts.
 *
 * @throws DomainError `forbidden`
 */
export const requireMove = async (
  ctx: Context,
  project: ProjectRow,
  { ref, oldOid, newOid }: RefUpdate,
): Promise<PermittedMove> => {
  const policy = await readPushPolicy(ctx, project);
  const update = { ref, oldOid, newOid: newOid === null ? null : SOME_OID };
  const { refused: [first] = [], fastForwardOnly = [] } = await judgePush(ctx, project, [update], null, policy);
  if (first) throw forbidden(first.reason);
  return {
    fastForwardOnly: fastForwardOnly.includes(ref),
    judge: async (oid, objects) => {
      const made = { ref, oldOid, newOid: oid };
      const { refused: [refused] = [] } = await judgePush(ctx, project, [made], objects, policy);
      if (refused) throw refusal(refused.reason);
    },
  };
};

const MAX_ATTEMPTS = 12;

/**
 * Prepares an update and moves its ref; when somebody else was quicker, prepares it anew on what is there now. What
 * comes too late twelve times over is refused.
 *
 * @throws DomainError `bad_request` for what git finds impossible, and for a name that clashes with another
 */
export const writeRef = async <T extends RefUpdate>(
  ctx: Context,
  project: ProjectRow,
  prepare: (project: ProjectRow) => Promise<T>,
): Promise<T> => {
  let current = project;
  for (let attempt = 1; ; attempt += 1) {
    const update = await prepare(current).catch((error: unknown) => {
      throw error instanceof GitError && error.reason === 'invalid' ? refusal(error.message) : error;
    });
    try {
      await moveRefs(ctx, current, [update]);
      return update;
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== 'conflict') throw error;
      const now = await ctx.services.git.resolve(project.disk_path, update.ref);
      if (now === update.oldOid) throw (await clashes(ctx, project, update.ref)) ? clash() : error;
      if (attempt >= MAX_ATTEMPTS) throw refusal(`Could not update ${update.ref}. Please refresh and try again.`);
    }
    await sleep(Math.random() * 20 * attempt, undefined, { signal: ctx.signal });
    // An empty repository is none any more, say.
    current = (await findProject(ctx, { id: project.id })) ?? current;
  }
};

const clash = () => refusal('The name clashes with that of another branch or tag');

/** Whether a folder of names stands where the ref should, or a ref where it needs a folder. */
const clashes = async (ctx: Context, { disk_path }: ProjectRow, ref: string): Promise<boolean> => {
  const prefix = tagName(ref) === null ? BRANCHES : TAGS;
  const match = (short: string) => ref.startsWith(`${prefix}${short}/`) || `${prefix}${short}`.startsWith(`${ref}/`);
  return (await ctx.services.git.listRefs(disk_path, { prefix, match, limit: 1 })).length > 0;
};
