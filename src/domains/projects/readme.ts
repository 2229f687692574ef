import { commitEmail } from '#domains/users/model.ts';
import type { Tx } from '#platform/context.ts';
import { toJsonb } from '#platform/to-jsonb.ts';

const README = 'README.md';

/** Belongs to no running process, so the recovery of unsettled pushes treats this push as left behind. */
export const NO_PROCESS = '00000000-0000-0000-0000-000000000000';

/**
 * Creates the first commit of a project with a readme, and returns what its row records of the commit. It leaves a push
 * to be recorded, so that its events follow after the project exists, as for any push.
 */
export const firstCommit = async (
  tx: Tx,
  project: { readonly id: number; readonly disk_path: string; readonly name: string; readonly default_branch: string },
): Promise<void> => {
  const author = await tx.db
    .selectFrom('users')
    .select(['id', 'name', 'email', 'commit_email', 'username'])
    .where('id', '=', tx.actor.userId)
    .executeTakeFirstOrThrow();
  const identity = { name: author.name, email: commitEmail(tx, author), date: tx.clock.now() };
  const oid = await tx.services.git.commitFiles(project.disk_path, {
    branch: project.default_branch,
    parent: null,
    message: 'Initial commit',
    author: identity,
    committer: identity,
    files: [{ action: 'create', path: README, content: `# ${project.name}\n` }],
  });
  await tx.db
    .updateTable('projects')
    .set({ empty_repo: false, readme_path: README })
    .where('id', '=', project.id)
    .execute();
  await tx.db
    .updateTable('project_statistics')
    .set({ commit_count: 1, repository_size: await tx.services.git.diskSize(project.disk_path) })
    .where('project_id', '=', project.id)
    .execute();
  const ref = `refs/heads/${project.default_branch}`;
  await tx.db
    .insertInto('pushes')
    .values({
      project_id: project.id,
      user_id: tx.actor.userId,
      process_id: NO_PROCESS,
      chain_id: tx.chainId,
      commands: toJsonb([{ ref, oldOid: null, newOid: oid }]),
      refs: [ref],
    })
    .execute();
};
