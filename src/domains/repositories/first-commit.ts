import type { ProjectRow } from '#domains/projects/model.ts';
import type { Tx } from '#platform/context.ts';
import { branchRef } from './model.ts';
import { describeUpdates, recordUpdates } from './ref-updates.ts';
import { callerIdentity } from './writing.ts';

/**
 * Adds a readme to the repository of a project that this transaction creates, with the events of a push. It needs no
 * row in `pushes`: nobody else can reach the repository before the commit, and a rollback removes it.
 */
export const commitFirstReadme = async (tx: Tx, project: ProjectRow): Promise<void> => {
  const { git } = tx.services;
  const branch = project.default_branch ?? '';
  const identity = await callerIdentity(tx);
  const newOid = await git.commitFiles(project.disk_path, {
    branch,
    parent: null,
    message: 'Initial commit',
    author: identity,
    committer: identity,
    files: [{ action: 'create', path: 'README.md', content: `# ${project.name}\n` }],
  });
  const update = { ref: branchRef(branch), oldOid: null, newOid };
  await recordUpdates(tx, project.id, await describeUpdates(tx, project, [update]));
  // The response has statistics too, and the job that refreshes them has not run by then.
  await tx.db
    .updateTable('project_statistics')
    .set({ commit_count: 1, repository_size: await git.diskSize(project.disk_path) })
    .where('project_id', '=', project.id)
    .execute();
};
