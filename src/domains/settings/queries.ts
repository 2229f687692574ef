import { defineCache } from '#platform/cache.ts';
import type { Context, Services } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { type Settings, settingsSchema } from './registry.ts';

export interface StoredSettings extends Settings {
  readonly id: number;
  readonly created_at: string;
  readonly updated_at: string;
}

/** All settings, under one key. */
const cachedSettings = defineCache<'all', Promise<StoredSettings>>({ name: 'settings', limit: 1, ttlMs: 60_000 });

/**
 * Returns the instance settings, cached for 60 s in each process (specification 3 §8). A change empties the cache of
 * this process at once, and those of other processes by notification within a second.
 */
export const getSettings = ({ services }: Pick<Context, 'services'>): Promise<StoredSettings> => {
  const cache = cachedSettings(services);
  const cached = cache.get('all');
  if (cached) return cached;
  const settings = readSettings(services);
  cache.set('all', settings);
  // A failed read must not stay cached.
  settings.catch(() => cache.delete('all'));
  return settings;
};

/** Empties the settings cache of this process, so that the next reader reads the table. */
export const forgetSettings = (services: Services): void => {
  cachedSettings(services).delete('all');
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
