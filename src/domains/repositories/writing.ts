import { setTimeout as sleep } from 'node:timers/promises';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { commitEmail } from '#domains/users/commit-email.ts';
import { getCurrentUser } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, forbidden } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import type { Identity } from '#platform/git/objects.ts';
import type { Judge } from '#platform/git/writing.ts';
import { BRANCHES, type RefUpdate, TAGS, tagName } from './model.ts';
import { judgePush, readPushPolicy } from './policy.ts';
import { moveRefs } from './pushes.ts';

// Shared by API commits and tags: they follow the same rules as a push and move refs in the same way.

/** Returns a 400 error with a message that clients know and show as it is. */
export const refusal = (message: string): DomainError => new DomainError('bad_request', message);

/** Returns the caller's git identity. */
export const callerIdentity = async (ctx: Context): Promise<Identity> => {
  const user = await getCurrentUser(ctx);
  return { name: user.name, email: await commitEmail(ctx, user), date: ctx.clock.now() };
};

/** Stands for an object that is not created yet. The rules of pushes only ask whether there is one. */
export const SOME_OID = '0'.repeat(40);

interface PermittedMove {
  readonly fastForwardOnly: boolean;
  /** Checks the new commit or tag against the push rule, if there is one. It throws `bad_request`. */
  readonly judge: Judge | undefined;
}

/**
 * Refuses moves that protection or names forbid, before any object is created. Only checks whether `newOid` is null,
 * not its value.
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
    judge:
      policy.rule === null
        ? undefined
        : async (oid, objects) => {
            const made = { ref, oldOid, newOid: oid };
            const { refused: [refused] = [] } = await judgePush(ctx, project, [made], objects, policy);
            if (refused) throw refusal(refused.reason);
          },
  };
};

const MAX_ATTEMPTS = 12;

/**
 * Prepares an update and moves its ref. If the ref has moved meanwhile, prepares the update again from its new value,
 * at most twelve times.
 *
 * @throws DomainError `bad_request` if git refuses the change or the name clashes with another
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
    // The project may have changed. For example, its repository may no longer be empty.
    current = (await findProject(ctx, { id: project.id })) ?? current;
  }
};

const clash = () => refusal('The name clashes with that of another branch or tag');

/** Returns whether the ref clashes with a folder of refs, or needs a folder where a ref exists. */
const clashes = async (ctx: Context, { disk_path }: ProjectRow, ref: string): Promise<boolean> => {
  const prefix = tagName(ref) === null ? BRANCHES : TAGS;
  const match = (short: string) => ref.startsWith(`${prefix}${short}/`) || `${prefix}${short}`.startsWith(`${ref}/`);
  return (await ctx.services.git.listRefs(disk_path, { prefix, match, limit: 1 })).length > 0;
};
