import { getSettings } from '#domains/settings/queries.ts';
import type { ActorCredential, Services } from '#platform/context.ts';

/** A job's token lives too briefly for its last use to matter. */
type NotedCredential = ActorCredential & { readonly kind: Exclude<ActorCredential['kind'], 'job_token'> };

/** Records in the background when a credential was last used and that its user is active (specification 2 §4.1). */
export const noteUse = (services: Services, userId: number, { kind, id }: NotedCredential): void =>
  note(services, `${kind} ${id}`, async () => {
    // The use of a session also extends it.
    const { session_expire_delay: minutes } = await getSettings({ services });
    await services.pool.query(USED[kind], kind === 'session' ? [id, userId, minutes] : [id, userId]);
  });

/** The same for a password. */
export const noteActivity = (services: Services, userId: number): void =>
  note(services, `user ${userId}`, () => services.pool.query(aboutOf('$1'), [userId]));

/** The tokens and sessions whose use is being recorded, so that a burst of requests writes it once. */
const noting = new WeakMap<Services, Set<string>>();

const note = (services: Services, mark: string, write: () => Promise<unknown>): void => {
  let busy = noting.get(services);
  if (!busy) {
    busy = new Set();
    noting.set(services, busy);
  }
  if (busy.has(mark)) return;
  busy.add(mark);
  write()
    .catch((error: unknown) => services.log.warn({ err: error }, 'Could not record the use of a credential'))
    .finally(() => busy.delete(mark));
};

const aboutOf = (user: '$1' | '$2'): string => `
  update users set last_activity_on = current_date, current_sign_in_at = now()
  where id = ${user} and (last_activity_on is distinct from current_date
    or current_sign_in_at is null or current_sign_in_at < now() - interval '1 minute')`;

const usedIn = (table: string, more = ''): string => `
  with used as (
    update ${table} set last_used_at = now()${more}
    where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute'))${aboutOf('$2')}`;

const USED: Readonly<Record<NotedCredential['kind'], string>> = {
  token: usedIn('personal_access_tokens'),
  oauth_token: usedIn('oauth_access_tokens'),
  session: usedIn('sessions', ', expires_at = now() + make_interval(mins => $3)'),
};
