import { hit } from '#platform/caller/rate-limit.ts';
import type { Actor, Context, Services } from '#platform/context.ts';
import { DomainError, tooManyRequests } from '#platform/errors.ts';
import { getSettings } from './queries.ts';

/** A request before any work is done for it. */
interface ThrottledRequest {
  /** Null when there was no valid credential. */
  readonly actor: Actor | null;
  readonly ip: string | null;
  /** Whether it is a page or git request; otherwise REST or GraphQL. */
  readonly web: boolean;
  /** Sets a rate-limit header on the response. */
  setHeader(name: string, value: string): void;
}

/**
 * Counts the request against the throttle of its kind, if that is enabled (reference: conventions §4). Signed-in
 * callers are counted by user, others by client address.
 *
 * @throws `too_many_requests` with the text of the setting `rate_limiting_response_text`
 */
export const throttle = async (services: Services, { actor, ip, web, setHeader }: ThrottledRequest): Promise<void> => {
  const settings = await getSettings({ services });
  const userId = actor?.userId ?? null;
  const name = `throttle_${userId === null ? 'unauthenticated' : 'authenticated'}_${web ? 'web' : 'api'}` as const;
  if (!settings[`${name}_enabled`]) return;
  const count = await hit(services, `${name}:${userId ?? ip ?? ''}`, {
    limit: settings[`${name}_requests_per_period`],
    seconds: settings[`${name}_period_in_seconds`],
  });
  setHeader('RateLimit-Name', name);
  setHeader('RateLimit-Limit', String(count.limit));
  setHeader('RateLimit-Observed', String(count.observed));
  setHeader('RateLimit-Remaining', String(count.remaining));
  setHeader('RateLimit-Reset', String(Math.floor(count.resetsAt.getTime() / 1_000)));
  if (count.allowed) return;
  setHeader('RateLimit-ResetTime', count.resetsAt.toUTCString());
  const { retryAfterSeconds } = count;
  throw new DomainError('too_many_requests', settings.rate_limiting_response_text, { retryAfterSeconds, plain: true });
};

/** The settings that limit one action, with the length of their window in seconds. */
const ACTIONS = {
  downstream_pipeline_trigger_limit_per_project_user_sha: 60,
  issues_create_limit: 60,
  projects_api_rate_limit_unauthenticated: 600,
  project_jobs_api_rate_limit: 60,
  project_export_limit: 60,
  project_download_export_limit: 60,
  project_import_limit: 60,
  raw_blob_request_limit: 60,
} as const;

/** The settings that limit the requests of all callers together. */
const SHARED: ReadonlySet<string> = new Set<keyof typeof ACTIONS>(['raw_blob_request_limit']);

/**
 * Counts an action of the caller against the setting that limits it; 0 is no limit. Actions with a different `about`
 * are counted separately.
 *
 * @throws `too_many_requests`
 */
export const limitAction = async (
  { services, actor, client, callerCheck }: Pick<Context, 'services' | 'actor' | 'client' | 'callerCheck'>,
  setting: keyof typeof ACTIONS,
  about: number | string | null = null,
): Promise<void> => {
  const limit = (await getSettings({ services }))[setting];
  if (limit === 0 || actor.isSystem) return;
  await callerCheck?.confirm(services.pool);
  const caller = SHARED.has(setting) ? 'all' : (actor.userId ?? client.ip ?? '');
  const key = [setting, caller, ...(about === null ? [] : [about])].join(':');
  const { allowed, retryAfterSeconds } = await hit(services, key, { limit, seconds: ACTIONS[setting] });
  if (allowed) return;
  throw tooManyRequests(retryAfterSeconds);
};
