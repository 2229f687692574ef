import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { type ClientKeyRow, dsnOf, publicKeyOf, type Settings } from './model.ts';

/** A client key (reference: conventions §8). */
export const clientKeyRecord = z
  .object({
    id: z.int(),
    active: z.boolean().describe('Always true: a key that is deleted is gone.'),
    public_key: z.string().nullable().describe('Null if it was encrypted with a lost key.'),
    sentry_dsn: z.string().nullable().describe('The Data Source Name, which SDKs need. Null if `public_key` is.'),
  })
  .meta({ id: 'ErrorTrackingClientKey' });

export const toClientKey = (ctx: Context, row: ClientKeyRow): z.output<typeof clientKeyRecord> => ({
  id: row.id,
  active: true,
  public_key: publicKeyOf(ctx, row),
  sentry_dsn: dsnOf(ctx, row),
});

/** The settings (reference: conventions §8). */
export const settingsRecord = z
  .object({
    active: z.boolean(),
    project_name: z.string().nullable(),
    sentry_external_url: z.string().nullable().describe('Always null: there is no other server.'),
    api_url: z.string().nullable().describe('Always null: there is no other server.'),
    integrated: z.boolean().describe('Whether errors are stored here.'),
  })
  .meta({ id: 'ErrorTrackingSettings' });

export const toSettings = (project: ProjectRow, settings: Settings): z.output<typeof settingsRecord> => ({
  active: settings.active,
  project_name: project.name,
  sentry_external_url: null,
  api_url: null,
  integrated: settings.integrated,
});
