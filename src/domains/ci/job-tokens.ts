import type { Context } from '#platform/context.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';

/** Tools recognise a job's token by this prefix. */
const JOB_TOKEN_PREFIX = 'glcbt-';

/**
 * Makes a token for a job. Only its digest is stored, by `runJobs`. It is valid while the job is running or being
 * canceled (tokens/authentication.ts), and ends with the job.
 */
export const newJobToken = (): string => JOB_TOKEN_PREFIX + randomToken();

/**
 * Returns the status of a job for the runner that has its token, also after the token has ended. Null for another token
 * or job. Runners read it from the header `Job-Status`.
 */
export const findStatusForToken = async (
  { db }: Pick<Context, 'db'>,
  id: number,
  token: string,
): Promise<string | null> => {
  const digest = digestToken(token);
  const row = await db
    .selectFrom('jobs')
    .select('status')
    .where('id', '=', id)
    .where((where) => where.or([where('token_digest', '=', digest), where('ended_token_digest', '=', digest)]))
    .executeTakeFirst();
  return row?.status ?? null;
};
