import { z } from 'zod';
import { findStatusForToken } from '#domains/ci/job-tokens.ts';
import { removeManager, renewRunnerToken, unregisterRunner } from '#domains/runners/by-token.ts';
import { RUNNER_ACCESS_LEVELS } from '#domains/runners/model.ts';
import { registerRunner } from '#domains/runners/registration.ts';
import type { Context } from '#platform/context.ts';
import { badParameters } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { RestError } from '#rest/errors.ts';
import { inputParser } from '#rest/input.ts';
import { anyHash, boolean, commaList, exclusive, hash, integer, oneOf, text } from '#rest/params.ts';
import { type Exchange, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { removedInV5 } from '#rest/v5.ts';
import { contactRunner, requestJob } from './requests.ts';
import { appendToLog, findRunningJob, JOB_STATES, type RunningJob, updateJob } from './updates.ts';

const tag = 'Runner protocol';

/** Seconds between two parts of a log, while somebody reads along and otherwise. */
const UPDATE_INTERVAL = { watched: '3', unwatched: '60' };
const RETRY_INTERVAL = '1';

/** A part of a log. Runners send a megabyte at most. */
const MAX_PART_BYTES = 8 * 1024 * 1024;
/** The token of a job is checked before a part larger than this arrives. */
const SMALL_PART_BYTES = 64 * 1024;

const word = () => text({ max: 1_000 });

const runnerInfo = {
  name: word().optional(),
  version: word().optional(),
  revision: word().optional(),
  platform: word().optional(),
  architecture: word().optional(),
  executor: word().optional(),
  features: anyHash().optional(),
};

const ofRunner = {
  token: text({ max: 2_000 }).describe('The authentication token of the runner.'),
  system_id: text({ max: 255 }).optional().describe('Identifies the machine, if several share the token.'),
};

const verifiedRecord = z
  .object({ id: z.int(), token: z.string(), token_expires_at: z.string().nullable() })
  .meta({ id: 'VerifiedRunner' });

const renewedRecord = z
  .object({ token: z.string(), token_expires_at: z.string().nullable() })
  .meta({ id: 'RenewedRunner' });

/** The payload is described in docs/runners.md. Runners ignore what they do not know. */
const payloadRecord = z.looseObject({ id: z.int(), token: z.string() }).nullable().meta({ id: 'JobPayload' });

/** The token of a job comes in the body and in a header. */
const jobToken = text({ max: 2_000 })
  .optional()
  .describe('The token of the job. It may be in the header `JOB-TOKEN` instead.');

const ofJob = inputParser({ job_id: integer({ min: 1 }) });

const runningJob = async (ctx: Context, id: number, token: string | undefined, http: Exchange): Promise<RunningJob> => {
  const header = http.headers['job-token'];
  const given = token ?? (typeof header === 'string' ? header : undefined);
  const job = given === undefined ? null : await findRunningJob(ctx, id, given);
  if (!job) {
    const ending = given === undefined ? null : await findStatusForToken(ctx, id, given);
    throw new RestError(403, ENDED, ending === null ? {} : { 'Job-Status': ending });
  }
  http.setHeader('Job-Status', job.status);
  return job;
};

/** `crc32:0123abcd`. Null for anything else. */
const checksumOf = (checksum: string | undefined): number | null => {
  const [, digits] = /^crc32:([0-9a-f]{8})$/.exec(checksum ?? '') ?? [];
  return digits === undefined ? null : Number.parseInt(digits, 16);
};

const ENDED = { message: '403 Forbidden - Job is not processing on runner' };

export const routes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/runners',
    tag,
    summary: 'Register a runner with a registration token',
    description:
      'The older way to create a runner, while the setting `allow_runner_registration_token` is on. `POST /user/runners` creates one without a shared token.',
    auth: 'own',
    input: {
      token: text({ max: 2_000 }).describe('The registration token of the instance, a group or a project.'),
      info: hash(runnerInfo)
        .optional()
        .describe(
          'Its `name` is the description of a runner without one. The rest is stored when the runner verifies itself.',
        ),
      description: text().nullish(),
      maintenance_note: text().nullish(),
      paused: boolean().optional(),
      active: removedInV5(boolean().optional().describe('The opposite of `paused`.'), { replacedBy: 'paused' }),
      locked: boolean().optional(),
      run_untagged: boolean().optional(),
      tag_list: commaList(text()).optional(),
      access_level: oneOf(RUNNER_ACCESS_LEVELS).optional(),
      maximum_timeout: integer({ max: 2_147_483_647 }).nullish(),
    },
    rules: [exclusive('active', 'paused')],
    response: verifiedRecord,
    run: async (ctx, { token, info, active, paused = active === undefined ? undefined : !active, ...input }) => {
      const description = input.description ?? info?.name;
      const runner = await registerRunner(ctx, token, { ...input, paused, description });
      return { id: runner.id, token: runner.token, token_expires_at: isoTime(runner.token_expires_at) };
    },
  }),
  route({
    method: 'POST',
    path: '/runners/verify',
    tag,
    summary: 'Check the token of a runner',
    description: 'Runners call it when they start. It creates the manager of the machine.',
    auth: 'own',
    input: { ...ofRunner, info: hash(runnerInfo).optional() },
    status: 200,
    response: verifiedRecord,
    run: async (ctx, { token, system_id, info = {} }) => {
      const { facts } = await contactRunner(ctx, { token, system_id, info });
      return { id: facts.id, token, token_expires_at: isoTime(facts.token_expires_at) };
    },
  }),
  route({
    method: 'DELETE',
    path: '/runners',
    tag,
    summary: 'Remove a runner by its token',
    auth: 'own',
    input: { token: ofRunner.token },
    response: null,
    refusals: MODIFIED,
    run: (ctx, { token }, http) => unregisterRunner(ctx, token, unmodifiedSince(http)),
  }),
  route({
    method: 'DELETE',
    path: '/runners/managers',
    tag,
    summary: 'Remove the manager of one machine of a runner',
    description: 'The runner and its other machines stay.',
    auth: 'own',
    input: { token: ofRunner.token, system_id: text({ max: 255 }) },
    response: null,
    run: (ctx, { token, system_id }) => removeManager(ctx, token, system_id),
  }),
  route({
    method: 'POST',
    path: '/runners/reset_authentication_token',
    tag,
    summary: 'Renew the token of a runner by its token',
    description: 'The old token ends at once.',
    auth: 'own',
    input: { token: ofRunner.token },
    response: renewedRecord,
    run: async (ctx, { token }) => {
      const renewed = await renewRunnerToken(ctx, token);
      return { token: renewed.token, token_expires_at: isoTime(renewed.token_expires_at) };
    },
  }),
  route({
    method: 'POST',
    path: '/jobs/request',
    tag,
    summary: 'Request a job for a runner',
    description:
      'Answers 201 with a job, or 204 if there is none. Then `X-GitLab-Last-Update` has a value that the runner sends as `last_update` with its next request: such a request waits for a job (MILLRACE_RUNNER_POLL_SECONDS).',
    auth: 'own',
    input: {
      ...ofRunner,
      last_update: text({ max: 255 }).optional(),
      info: hash(runnerInfo).optional(),
    },
    response: payloadRecord,
    run: async (ctx, { info = {}, ...request }, http) => {
      const { job, last_update } = await requestJob(ctx, { ...request, info });
      if (last_update !== null) http.setHeader('X-GitLab-Last-Update', last_update);
      if (job === null) http.setStatus(204);
      return job;
    },
  }),
  route({
    method: 'PUT',
    path: '/jobs/:job_id',
    tag,
    summary: 'Report the state of a running job',
    description:
      'Answers 200. For the end of a job: 202 while a part of its log is being stored, so that the runner repeats the call; 412 if the log is not what the runner sent, which then sends it again.',
    auth: 'own',
    input: {
      job_id: integer({ min: 1 }),
      token: jobToken,
      state: oneOf(JOB_STATES),
      failure_reason: text({ max: 255 }).optional(),
      exit_code: integer({ min: -2_147_483_648, max: 2_147_483_647 }).optional(),
      output: hash({ checksum: text({ max: 100 }).optional(), bytesize: integer({ min: 0 }).optional() }).optional(),
      checksum: text({ max: 100 }).optional().describe('Deprecated; use `output`.'),
    },
    response: null,
    status: 200,
    run: async (ctx, { job_id, token, state, failure_reason, exit_code, output, checksum }, http) => {
      const job = await runningJob(ctx, job_id, token, http);
      const outcome = await updateJob(ctx, job, {
        state,
        failure_reason,
        exit_code,
        crc32: checksumOf(output?.checksum ?? checksum),
        bytesize: output?.bytesize ?? null,
      });
      if (outcome === 'ended') throw new RestError(403, ENDED);
      if (outcome === 'done' && state !== 'running' && state !== 'pending') http.setHeader('Job-Status', state);
      if (outcome === 'busy') {
        http.setStatus(202);
        http.setHeader('X-GitLab-Trace-Update-Interval', RETRY_INTERVAL);
      }
      if (outcome === 'incomplete') http.setStatus(412);
    },
  }),
  route({
    method: 'PATCH',
    path: '/jobs/:job_id/trace',
    tag,
    summary: 'Append to the log of a running job',
    description:
      'The header `Content-Range: 0-99` says which bytes the body has; both ends are inclusive. Answers 202, or 416 if they do not follow what is stored: the header `Range` then says where to go on.',
    auth: 'own',
    rawBody: true,
    maxBodyBytes: MAX_PART_BYTES,
    admit: async (ctx, sent, http) => {
      if (Number(http.headers['content-length'] ?? Number.POSITIVE_INFINITY) <= SMALL_PART_BYTES) return;
      await runningJob(ctx, ofJob(sent).job_id, undefined, http);
    },
    input: { job_id: integer({ min: 1 }), debug_trace: boolean().default(false) },
    response: null,
    status: 202,
    run: async (ctx, { job_id, debug_trace }, http) => {
      const job = await runningJob(ctx, job_id, undefined, http);
      const [, first = '', last = ''] =
        /^(\d{1,15})-(\d{1,15})$/.exec(String(http.headers['content-range'] ?? '')) ?? [];
      if (first === '') throw badParameters('Content-Range is missing or invalid (allowed: 0-99)');
      const start = Number(first);
      // A body of another length was cut off on its way.
      const isWhole = http.body.length === Number(last) + 1 - start;
      const part = { start: isWhole ? start : -1, bytes: http.body, debug: debug_trace };
      const { outcome, size, watched } = await appendToLog(ctx, job, part);
      if (outcome === 'too_large' || outcome === 'ended') throw new RestError(403, ENDED, { 'Job-Status': 'failed' });
      const range = `0-${size}`;
      if (outcome === 'elsewhere') {
        const headers = { Range: range, 'Job-Status': job.status };
        throw new RestError(416, { error: '416 Range Not Satisfiable' }, headers);
      }
      http.setHeader('Range', range);
      http.setHeader('X-GitLab-Trace-Update-Interval', watched ? UPDATE_INTERVAL.watched : UPDATE_INTERVAL.unwatched);
    },
  }),
];
