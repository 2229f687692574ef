import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import yazl from 'yazl';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { insertPipeline } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import type { TestApp } from '../support/app.ts';
import type { Answer } from '../support/client.ts';

export interface RunningJob {
  readonly id: number;
  readonly pipelineId: number;
  readonly token: string;
}

type Attributes = Parameters<typeof insertPipeline>[1];
type JobAttributes = Partial<Parameters<typeof insertPipeline>[2] extends readonly (infer J)[] | undefined ? J : never>;

/** Inserts a pipeline with one running job that has a token. */
export const insertRunningJob = async (
  { hub }: TestApp,
  pipeline: Attributes,
  job: JobAttributes = {},
): Promise<RunningJob> => {
  const token = `glcbt-${randomToken()}`;
  const inserted = await insertPipeline(hub.services.db, { status: 'running', ...pipeline }, [
    { name: 'compile', stage: 'build', status: 'running', token_digest: digestToken(token), ...job },
  ]);
  return { id: inserted.jobs[0] ?? 0, pipelineId: inserted.id, token };
};

/** Ends a job and its pipeline, as its runner does. */
export const endJob = async (
  { hub }: TestApp,
  { id, pipelineId, token }: RunningJob,
  status = 'success',
): Promise<void> => {
  const { db } = hub.services;
  const tokens = { token_digest: null, ended_token_digest: digestToken(token) };
  await db
    .updateTable('jobs')
    .set({ status, ...tokens })
    .where('id', '=', id)
    .execute();
  await db.updateTable('pipelines').set({ status }).where('id', '=', pipelineId).execute();
};

/** A private project with one user per role, and a running job. */
export const makeJobScene = async (app: TestApp, attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app, attributes);
  const job = await insertRunningJob(app, { project_id: scene.project.id });
  return { ...scene, job, jobPath: `${scene.path}/jobs/${job.id}` };
};

export const zipOf = (
  files: Readonly<Record<string, string | Buffer>>,
  options: { compress?: boolean; forceZip64Format?: boolean } = {},
): Promise<Buffer> => {
  const zip = new yazl.ZipFile();
  for (const [name, content] of Object.entries(files)) {
    zip.addBuffer(Buffer.from(content), name, { mtime: new Date('2026-01-02T03:04:06Z'), mode: 0o100644, ...options });
  }
  zip.end({ comment: '', forceZip64Format: options.forceZip64Format ?? false });
  return buffer(Readable.from(zip.outputStream));
};

export interface UploadOptions {
  readonly query?: string;
  readonly filename?: string;
  readonly token?: string;
}

/** Uploads a file as a runner does, in one part and with the token in the header. */
export const upload = (
  app: TestApp,
  job: RunningJob,
  content: Buffer | string,
  { query = '', filename = 'artifacts.zip', token = job.token }: UploadOptions = {},
): Promise<Answer> => {
  const form = new FormData();
  form.append('file', new Blob([new Uint8Array(Buffer.from(content))]), filename);
  return app.anonymous.post(`/jobs/${job.id}/artifacts?${query}`, form, { 'job-token': token });
};
