import type { Context, Services } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { type Settings, settingsSchema } from './registry.ts';

const CACHE_MS = 60_000;

interface Cached {
  readonly settings: Promise<StoredSettings>;
  readonly until: number;
}

export interface StoredSettings extends Settings {
  readonly id: number;
  readonly created_at: string;
  readonly updated_at: string;
}

const caches = new WeakMap<Services, Cached>();

/**
 * Returns the instance settings, cached for 60 s in each process (specification 3 §8). A change empties the cache of
 * this process at once, and those of other processes by notification within a second.
 */
export const getSettings = ({ services }: Pick<Context, 'services'>): Promise<StoredSettings> => {
  const cached = caches.get(services);
  if (cached && cached.until > performance.now()) return cached.settings;
  const settings = readSettings(services);
  caches.set(services, { settings, until: performance.now() + CACHE_MS });
  // A failed read must not stay cached.
  settings.catch(() => caches.delete(services));
  return settings;
};

/** Empties the settings cache of this process, so that the next reader reads the table. */
export const forgetSettings = (services: Services): void => {
  caches.delete(services);
};

/** Returns the settings for `GET /application/settings`. Administrators only. @throws `forbidden` */
export const getSettingsAsAdministrator = (ctx: Context): Promise<StoredSettings> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  return getSettings(ctx);
};

const readSettings = async ({ db }: Services): Promise<StoredSettings> => {
  const row = await db
    .selectFrom('application_settings')
    .select(['id', 'attributes', 'created_at', 'updated_at'])
    .executeTakeFirstOrThrow();
  return {
    ...settingsSchema.parse(row.attributes),
    id: row.id,
    created_at: row.created_at,
    updated_at: row.updated_at,
  };
};
