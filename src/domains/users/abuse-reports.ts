import { getSettings } from '#domains/settings/queries.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, invalid, requireValid, tooLong } from '#platform/errors.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { userWebUrl } from './model.ts';
import { requireUser } from './policy.ts';
import { getUser } from './queries.ts';

export const MAX_MESSAGE = 10_000;
export const MAX_URL = 2_000;
/** Reports that one user may send, so that nobody floods the people who read them. */
const PER_REPORTER = { limit: 10, seconds: 3_600 } as const;

export interface AbuseReport {
  /** The id of the user whose behaviour is reported. */
  readonly userId: number;
  /** The reporter's description of the abuse. */
  readonly message: string;
  /** The http URL of the place where they did it. */
  readonly url?: string | undefined;
}

/** Whether the hub takes reports: whether there is an address that they go to. */
export const takesReports = async (ctx: Context): Promise<boolean> =>
  (await getSettings(ctx)).abuse_notification_email !== '';

/**
 * Mails a report about a user to `abuse_notification_email` (specification 3 §2.4). Nothing is stored, and the user
 * is not notified (docs/decisions/0063).
 *
 * @throws `unauthenticated`, `not_found` (User), `invalid` (user, message, url; base while there is no such address),
 * `too_many_requests`
 */
export const reportAbuse = async (ctx: Context, { userId, message, url = '' }: AbuseReport): Promise<void> => {
  const reporterId = requireUser(ctx);
  const { abuse_notification_email: to } = await getSettings(ctx);
  if (to === '') throw invalid({ base: ['This hub takes no reports of abuse'] });
  const [user, reporter] = [await getUser(ctx, userId), await getUser(ctx, reporterId)];
  const problems = {
    ...(userId === reporterId ? { user: ['must not be yourself'] } : {}),
    ...(message.trim() === '' ? { message: ["can't be blank"] } : lengthProblem('message', message, MAX_MESSAGE)),
    ...(url === '' || isHttpUrl(url) ? lengthProblem('url', url, MAX_URL) : { url: ['is not an http URL'] }),
  };
  requireValid(problems);
  const { allowed, retryAfterSeconds } = await hit(ctx.services, `abuse_reports:${reporterId}`, PER_REPORTER);
  if (!allowed) throw new DomainError('too_many_requests', 'Too many reports: try again later', { retryAfterSeconds });
  await ctx.transaction(async (tx) =>
    sendMail(tx, {
      to,
      subject: `Abuse report about ${user.username}`,
      text: `${reporter.username} (user ${reporter.id}) reports ${user.username} (user ${user.id}):

${message.trim().replaceAll(/^/gm, '> ')}

User:   ${userWebUrl(ctx, user)}
Place:  ${url === '' ? 'no address was given' : url}
`,
    }),
  );
};

const lengthProblem = (field: 'message' | 'url', value: string, max: number) =>
  isLongerThan(value, max) ? { [field]: [tooLong(max)] } : {};

const isHttpUrl = (value: string): boolean => /^https?:\/\/[!-~]+$/.test(value) && URL.canParse(value);
