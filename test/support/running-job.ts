import type { Insertable } from 'kysely';
import { newJobToken } from '#domains/ci/job-tokens.ts';
import { raiseIid } from '#domains/projects/insert.ts';
import type { Jobs } from '#platform/db/tables.ts';
import { digestToken } from '#platform/secrets.ts';
import { insertPipeline } from '../merge-requests/support.ts';
import type { TestApp, TestUser } from './app.ts';

/** Inserts a job of the project that runs for the user, and returns its id and token. */
export const runningJob = async (
  app: TestApp,
  { id: project_id }: { readonly id: number },
  user: TestUser,
  attributes: Partial<Insertable<Jobs>> = {},
) => {
  const { db } = app.hub.services;
  const pipeline = await insertPipeline(db, { project_id, user_id: user.id, status: 'running' }, [
    { name: 'build', stage: 'build', status: 'running', user_id: user.id, ...attributes },
  ]);
  const [id = 0] = pipeline.jobs;
  // Pipelines that the hub creates later get the next numbers.
  await app.context().transaction((tx) => raiseIid(tx, project_id, 'pipeline', pipeline.iid));
  const token = await giveToken(app, id);
  return { id, pipeline_id: pipeline.id, token };
};

/** Gives a job a token, as it gets one when it is handed out. */
export const giveToken = async (app: TestApp, id: number): Promise<string> => {
  const token = newJobToken();
  const token_digest = digestToken(token);
  await app.hub.services.db.updateTable('jobs').set({ token_digest }).where('id', '=', id).execute();
  return token;
};
