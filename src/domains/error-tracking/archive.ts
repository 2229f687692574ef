import type { Context, Tx } from '#platform/context.ts';
import { readSettings } from './queries.ts';

/** Returns the settings as the line of an export archive. Errors and client keys stay behind. */
export const errorTrackingToArchive = async (
  ctx: Pick<Context, 'db'>,
  projectId: number,
): Promise<Record<string, unknown>> => {
  const { active, integrated } = await readSettings(ctx, projectId);
  return { enabled: active, integrated };
};

/** The settings of a project whose errors go to a server of its own, which this hub does not read. */
const FOREIGN = ['api_url', 'organization_name', 'project_name'] as const;

/**
 * Stores the settings of an imported project, without an event. Absent ones keep their default. Returns the keys that
 * have a value and are left out. With these, error tracking is integrated only if the line says so.
 */
export const importErrorTracking = async (
  tx: Tx,
  projectId: number,
  line: Readonly<Record<string, unknown>>,
): Promise<readonly string[]> => {
  const before = await readSettings(tx, projectId);
  const foreign = FOREIGN.filter((key) => typeof line[key] === 'string' && line[key] !== '');
  const read = (value: unknown, otherwise: boolean): boolean => (typeof value === 'boolean' ? value : otherwise);
  const settings = {
    active: read(line.enabled, before.active),
    integrated: read(line.integrated, foreign.length === 0 && before.integrated),
  };
  await tx.db
    .insertInto('error_tracking_settings')
    .values({ project_id: projectId, ...settings })
    .onConflict((clash) => clash.column('project_id').doUpdateSet(settings))
    .execute();
  return foreign;
};
