import { commitEmail } from '#domains/users/model.ts';
import type { Tx } from '#platform/context.ts';
import { toJsonb } from '#platform/to-jsonb.ts';

const README = 'README.md';

/** Belongs to no process: whoever looks for pushes to settle takes it for one that was left behind. */
export const NO_PROCESS = '00000000-0000-0000-0000-000000000000';

/**
 * The commit a project begins with when it is created with a readme, and what the row tells of it. It leaves a push
 * that is still to be recorded: its events follow once the project is there, as of any other push.
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
