import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { TestApp, TestUser } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import type { TestProject } from '../support/factories.ts';
import { remoteOf, runGit, workTree } from './support.ts';

export interface Filled {
  readonly owner: TestUser;
  readonly project: TestProject;
  readonly tree: string;
  readonly remote: string;
  /** Returns the path below `/projects/:id/repository`. */
  readonly path: (rest: string) => string;
  /** Writes the files, commits and pushes them. Returns the id of the commit. */
  commit(files: Readonly<Record<string, string | Buffer>>, message: string): Promise<string>;
}

/** Creates a project whose repository has `files` in a second commit, after the readme. */
export const filledProject = async (
  app: TestApp,
  folder: string,
  files: Readonly<Record<string, string | Buffer>> = {},
  attributes: Record<string, unknown> = {},
): Promise<Filled> => {
  const owner = await app.make.user();
  const project = await app.make.project({ visibility: 'private', ...attributes }, owner);
  const tree = await workTree(folder);
  const remote = await remoteOf(app, project, owner);
  const write = async (named: Readonly<Record<string, string | Buffer>>, message: string): Promise<void> => {
    for (const [name, content] of Object.entries(named)) {
      await mkdir(dirname(join(tree, name)), { recursive: true });
      await writeFile(join(tree, name), content);
    }
    await runGit(tree, 'add', '--all');
    await runGit(tree, 'commit', '-q', '--allow-empty', '-m', message);
  };
  const commit = async (named: Readonly<Record<string, string | Buffer>>, message: string): Promise<string> => {
    await write(named, message);
    await pushTree(app, project, owner, tree, 'HEAD');
    return runGit(tree, 'rev-parse', 'HEAD');
  };
  if (Object.keys(files).length > 0) await write(files, 'Add files');
  await pushTree(app, project, owner, tree, 'main');
  return { owner, project, tree, remote, path: (rest) => `/projects/${project.id}/repository${rest}`, commit };
};
