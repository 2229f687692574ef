import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import type { TestApp, TestUser } from '../support/app.ts';

export { commitFile, copyOf, runGit, tryGit, workTree } from '../support/git.ts';

/** Provides a folder for work trees that is removed after the tests of the file. */
export const useFolder = (): (() => string) => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-git-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return () => folder;
};

/** Returns the URL to clone from and push to, including a credential. */
export const remoteUrl = (
  base: string,
  project: { readonly path_with_namespace: string },
  username?: string,
  password?: string,
): string => {
  const url = new URL(`${base}/${project.path_with_namespace}.git`);
  if (username !== undefined) url.username = encodeURIComponent(username);
  if (password !== undefined) url.password = encodeURIComponent(password);
  return url.href;
};

/** Returns the URL with a token of the user. */
export const remoteOf = async (
  app: TestApp,
  project: { readonly path_with_namespace: string },
  user: TestUser,
  scopes?: readonly string[],
): Promise<string> => remoteUrl(app.url, project, 'oauth2', await app.tokenOf(user, scopes));

export interface RecordedEvent {
  readonly kind: string;
  readonly actor_id: number | null;
  readonly min_access_level: number | null;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into payloads of every shape.
  readonly payload: any;
}

/** Returns the events of the project's repository, oldest first. */
export const eventsOf = async (app: TestApp, projectId: number): Promise<RecordedEvent[]> => {
  const { rows } = await app.hub.services.pool.query(
    `select kind, actor_id, min_access_level, payload from events
     where project_id = $1 and kind in ('push.received', 'tag.pushed', 'repository.updated') order by id`,
    [projectId],
  );
  return rows;
};
