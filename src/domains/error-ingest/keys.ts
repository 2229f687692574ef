import { sql } from 'kysely';
import { clientKeyCreated, clientKeyDeleted, settingsUpdated } from '#domains/error-tracking/events.ts';
import { type Cache, defineCache } from '#platform/cache.ts';
import type { Services } from '#platform/context.ts';
import type { EventFeed } from '#platform/event-log/feed.ts';
import { digestToken } from '#platform/secrets.ts';

export interface IngestKey {
  readonly id: number;
  readonly project_id: number;
}

interface Known {
  readonly key: Promise<IngestKey | null>;
  readonly generation: number;
}

const TTL_MS = 60_000;
const known = defineCache<string, Known>({ name: 'client keys', limit: 20_000, ttlMs: TTL_MS });
const generations = new WeakMap<Cache<string, Known>, number>();

/**
 * Finds a client key by its text. Null if it is unknown, of another project, or if the project takes no errors. The
 * answer may be cached: the statement that stores an envelope checks the key again.
 */
export const findKey = async (services: Services, text: string, projectId: number): Promise<IngestKey | null> => {
  const cache = known(services);
  const generation = generations.get(cache) ?? 0;
  let entry = cache.get(text);
  if (!entry || entry.generation !== generation) {
    entry = { key: readKey(services, digestToken(text)), generation };
    cache.set(text, entry);
    entry.key.catch(() => cache.delete(text));
  }
  const key = await entry.key;
  return key?.project_id === projectId ? key : null;
};

/** Empties the cache of this process. */
export const forgetKeys = (services: Services): void => {
  const cache = known(services);
  generations.set(cache, (generations.get(cache) ?? 0) + 1);
};

/** Follows the event log, so that a change of keys and settings takes effect in every process. */
export const followKeys = (services: Services, feed: EventFeed): (() => void) =>
  feed.subscribe({ kinds: new Set([clientKeyCreated.kind, clientKeyDeleted.kind, settingsUpdated.kind]) }, () =>
    forgetKeys(services),
  );

const readKey = async ({ db }: Services, digest: Buffer): Promise<IngestKey | null> => {
  const { rows } = await sql<IngestKey>`
    select k.id, k.project_id from error_tracking_client_keys k
      left join error_tracking_settings s on s.project_id = k.project_id
    where k.digest = ${digest} and coalesce(s.active and s.integrated, true)`.execute(db);
  return rows[0] ?? null;
};
