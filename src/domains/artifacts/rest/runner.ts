import { findStatusForToken } from '#domains/ci/job-tokens.ts';
import type { Context } from '#platform/context.ts';
import { badParameters, DomainError } from '#platform/errors.ts';
import { answerError, RestError } from '#rest/errors.ts';
import { inputParser } from '#rest/input.ts';
import { boolean, fileUpload, integer, oneOf, text } from '#rest/params.ts';
import { type Exchange, type Route, route, streamRoute } from '#rest/route.ts';
import { FILE_FORMATS, FILE_TYPES } from '../model.ts';
import { getDependency } from '../queries.ts';
import { placeArtifact, storeArtifact, type UploadRequest } from '../upload.ts';
import { wholeFile } from './downloads.ts';

const tag = 'Runner protocol';

const parameters = {
  job_id: integer({ min: 1 }),
  token: text({ max: 2_000 }).optional().describe('The token of the job, if it is not in the header `JOB-TOKEN`.'),
  artifact_type: oneOf(FILE_TYPES).default('archive'),
  artifact_format: oneOf(FILE_FORMATS).default('zip'),
  expire_in: text({ max: 255 }).optional().describe('`1 week`, `3h 30 min`, `never`. Defaults to the setting.'),
};
const parse = inputParser(parameters);

type Parameters = ReturnType<typeof parse>;

const requestOf = (
  { job_id, token, artifact_type: file_type, artifact_format: file_format, expire_in }: Parameters,
  { headers }: Exchange,
): UploadRequest => {
  const sent = headers['job-token'];
  if (token !== undefined && sent !== undefined && token !== sent) throw badParameters('token differs from JOB-TOKEN');
  return { job_id, token: (Array.isArray(sent) ? sent[0] : sent) ?? token ?? '', file_type, file_format, expire_in };
};

/**
 * Does a step of an upload. Every answer names the status of the job, also a refusal, because runners learn from it that
 * their job was canceled.
 */
const withStatus = async <T>(
  ctx: Context,
  { job_id, token }: UploadRequest,
  http: Exchange,
  step: () => Promise<T>,
): Promise<T> => {
  const statusNow = () => findStatusForToken(ctx, job_id, token);
  try {
    const done = await step();
    http.setHeader('Job-Status', (await statusNow()) ?? '');
    return done;
  } catch (error) {
    const job = error instanceof DomainError ? await statusNow() : null;
    if (job === null) throw error;
    const { status, body, headers } = answerError(error);
    throw new RestError(status, body, { ...headers, 'Job-Status': job });
  }
};

/** The endpoints that runners call with the token of a job (reference: neighbours G). */
export const runnerRoutes = [
  route({
    method: 'POST',
    path: '/jobs/:job_id/artifacts',
    tag,
    summary: 'Upload an artifact of a running job',
    description:
      'For runners. The form has one part, `file`. All other parameters are in the query. The file is stored while it arrives.',
    auth: 'own',
    input: { ...parameters, file: fileUpload({ maxBytes: null }) },
    response: null,
    status: 201,
    place: async (ctx, sent, http) => {
      const request = requestOf(parse(sent), http);
      return withStatus(ctx, request, http, () => placeArtifact(ctx, request));
    },
    run: async (ctx, { file, ...input }, http) => {
      const request = requestOf(input, http);
      await withStatus(ctx, request, http, () => storeArtifact(ctx, request, file));
    },
  }),
  streamRoute({
    method: 'GET',
    path: '/jobs/:job_id/artifacts',
    tag,
    summary: 'Download the artifacts of an earlier job',
    description: 'For runners, with the token of the running job.',
    jobTokens: true,
    input: {
      job_id: integer({ min: 1 }),
      direct_download: boolean()
        .default(false)
        .describe('Whether the runner follows a redirect to the object storage.'),
    },
    run: async (ctx, { job_id, direct_download: redirect }) =>
      wholeFile(ctx, await getDependency(ctx, job_id), { redirect }),
  }),
] satisfies readonly Route[];
