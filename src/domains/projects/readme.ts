import { commitEmail } from '#domains/users/model.ts';
import type { Tx } from '#platform/context.ts';

const README = 'README.md';

/** The commit a project begins with when it is created with a readme, and what the row tells of it. */
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
  await tx.services.git.commitFiles(project.disk_path, {
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
};
