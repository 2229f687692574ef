import { sql } from 'kysely';
import { defineCache } from '#platform/cache.ts';
import type { Context } from '#platform/context.ts';
import { MINUTE_MS } from '#platform/values/units.ts';
import { generationOf } from './tokens.ts';

/** The facts that a runner sends about itself with each request for a job. */
export interface ManagerInfo {
  readonly version?: string | undefined;
  readonly revision?: string | undefined;
  readonly platform?: string | undefined;
  readonly architecture?: string | undefined;
  readonly executor?: string | undefined;
  readonly features?: Readonly<Record<string, unknown>> | undefined;
}

/** The manager of runners that send no `system_id`. */
const LEGACY_SYSTEM_ID = '<legacy>';

interface Contact {
  readonly id: Promise<number>;
  /** The information that is stored. */
  readonly info: string;
  /** `performance.now()` at which the contact is stored again. */
  readonly until: number;
}

const contacts = defineCache<string, Contact>({ name: 'runner contacts', limit: 20_000 });

/**
 * Returns the id of the runner's manager, which is created at its first contact. The time of the contact is stored
 * every 40 to 55 minutes, and whenever the information changed (reference: ci §4).
 */
export const contactManager = async (
  ctx: Context,
  runner_id: number,
  system_id: string | undefined,
  info: ManagerInfo,
): Promise<number> => {
  const system = system_id || LEGACY_SYSTEM_ID;
  const key = `${generationOf(ctx.services)} ${runner_id} ${system}`;
  const known = contacts(ctx.services).get(key);
  const sent = JSON.stringify([info, ctx.client.ip]);
  if (known && known.info === sent && known.until > performance.now()) return known.id;
  // Many requests of one manager may arrive before the first contact is stored.
  const id = storeContact(ctx, runner_id, system, info);
  const until = performance.now() + (40 + Math.random() * 15) * MINUTE_MS;
  contacts(ctx.services).set(key, { id, info: sent, until });
  id.catch(() => contacts(ctx.services).delete(key));
  return id;
};

const storeContact = async (ctx: Context, runner_id: number, system: string, info: ManagerInfo): Promise<number> => {
  const { version, revision, platform, architecture, executor, features = {} } = info;
  const { rows } = await sql<{ id: number }>`
    with contacted as (update runners set contacted_at = now() where id = ${runner_id})
    insert into runner_managers as m (runner_id, system_id, version, revision, platform, architecture, executor, features,
      ip_address, contacted_at)
    values (${runner_id}, ${system}, ${version}, ${revision}, ${platform}, ${architecture}, ${executor},
      ${JSON.stringify(features)}::jsonb, ${ctx.client.ip}, now())
    on conflict (runner_id, system_id) do update set contacted_at = now(), ip_address = excluded.ip_address,
      version = coalesce(excluded.version, m.version), revision = coalesce(excluded.revision, m.revision),
      platform = coalesce(excluded.platform, m.platform), executor = coalesce(excluded.executor, m.executor),
      architecture = coalesce(excluded.architecture, m.architecture),
      features = case when excluded.features = '{}' then m.features else excluded.features end
    returning m.id`.execute(ctx.db);
  const [row] = rows;
  if (!row) throw new Error(`the manager of the runner ${runner_id} was not stored`);
  return row.id;
};
