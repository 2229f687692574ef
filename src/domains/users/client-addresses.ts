import { sql } from 'kysely';
import { z } from 'zod';
import { getSettings } from '#domains/settings/queries.ts';
import { defineCache } from '#platform/cache.ts';
import { networkOf } from '#platform/caller/network.ts';
import type { Services } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';

interface Noted {
  /** `performance.now()` when the database last noted the address. */
  readonly at: number;
  /** The version of the settings that allowed it. */
  readonly settings: string;
}

/** Addresses that the database has noted, by user and address. */
const notedAddresses = defineCache<string, Noted>({ name: 'user addresses', limit: 20_000 });

/** The use of an address is written to the database at most this often, and ten times in the time window. */
const MAX_NOTED_MS = 60_000;

/**
 * Checks that the user does not send requests from more addresses than `unique_ips_limit_per_user` within
 * `unique_ips_limit_time_window`, and notes this address. The addresses in use longest are the allowed ones, so a newcomer
 * never displaces them. An IPv6 network of 64 bits counts as one address. Refused addresses do not count.
 *
 * @throws `forbidden`
 */
export const requireClientAddress = async (
  services: Services,
  userId: number | null,
  ip: string | null,
): Promise<void> => {
  const limits = await limitsOf(services);
  if (limits === null || userId === null || ip === null || isNoted(services, limits, userId, ip)) return;
  const at = performance.now();
  const address = networkOf(ip);
  if (!(await noteAddress(services, userId, address, limits))) {
    throw forbidden('You use too many addresses at once. Use one of your other addresses, or try again later.');
  }
  notedAddresses(services).set(keyOf(userId, address), { at, settings: limits.version });
};

/** Whether `requireClientAddress` would neither refuse nor write anything. Asks this process only. */
export const isKnownClientAddress = async (services: Services, userId: number, ip: string | null): Promise<boolean> => {
  const limits = await limitsOf(services);
  return limits === null || ip === null || isNoted(services, limits, userId, ip);
};

interface Limits {
  readonly limit: number;
  readonly seconds: number;
  /** The version of the settings. */
  readonly version: string;
}

/** Returns null while addresses are not limited. */
const limitsOf = async (services: Services): Promise<Limits | null> => {
  const settings = await getSettings({ services });
  const { unique_ips_limit_per_user: limit, unique_ips_limit_time_window: seconds, updated_at: version } = settings;
  return settings.unique_ips_limit_enabled && limit !== null && seconds !== null ? { limit, seconds, version } : null;
};

const keyOf = (userId: number, address: string): string => `${userId} ${address}`;

const isNoted = (services: Services, { seconds, version }: Limits, userId: number, ip: string): boolean => {
  const noted = notedAddresses(services).get(keyOf(userId, networkOf(ip)));
  const keptMs = Math.min(MAX_NOTED_MS, seconds * 100);
  return noted !== undefined && noted.settings === version && performance.now() - noted.at < keptMs;
};

/** Returns false, and notes nothing, if other addresses of the user have taken all places. */
const noteAddress = ({ db }: Services, userId: number, address: string, { limit, seconds }: Limits): Promise<boolean> =>
  db.transaction().execute(async (trx) => {
    // Two new addresses must not both find the last place free.
    await sql`select pg_advisory_xact_lock(hashtextextended(${`millrace:addresses:${userId}`}, 0))`.execute(trx);
    const { rows } = await sql`
      with used as (
        select address, first_seen_at from user_addresses
        where user_id = ${userId} and last_seen_at > clock_timestamp() - make_interval(secs => ${seconds})
      ), earlier as (
        select count(*) as count from used
        where address <> ${address}
          and first_seen_at <= coalesce((select first_seen_at from used where address = ${address}), 'infinity')
      )
      insert into user_addresses as a (user_id, address)
      select ${userId}, ${address} from earlier where earlier.count < ${limit}
      on conflict (user_id, address) do update set
        last_seen_at = excluded.last_seen_at,
        first_seen_at = case when a.address in (select address from used) then a.first_seen_at else excluded.first_seen_at end
      returning 1`.execute(trx);
    return rows.length > 0;
  });

/** The job `users.sweep_addresses`: removes addresses that no longer count. */
export const sweepAddresses = defineJob({
  name: 'users.sweep_addresses',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '33 * * * *',
  run: async ({ db, services }) => {
    const { unique_ips_limit_enabled: isOn, unique_ips_limit_time_window: seconds } = await getSettings({ services });
    await db
      .deleteFrom('user_addresses')
      .where('last_seen_at', '<', sql<string>`now() - make_interval(secs => ${isOn ? (seconds ?? 0) : 0})`)
      .execute();
  },
});
