import { sql } from 'kysely';
import { lockProjectFor } from '#domains/projects/locks.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { invalid, notFound } from '#platform/errors.ts';
import { digestToken, encrypt } from '#platform/secrets.ts';
import { clientKeyCreated, clientKeyDeleted, settingsUpdated } from './events.ts';
import { type ClientKeyRow, KEY_PURPOSE, MAX_CLIENT_KEYS, newPublicKey, type Settings } from './model.ts';
import { maintainersOf } from './policy.ts';
import { clientKeyColumns, readSettings, requireIntegrated } from './queries.ts';

/**
 * Creates a client key (specification 1 §4.6).
 *
 * @throws DomainError `forbidden` below Maintainer, `not_found` also if the project stores no errors here, `invalid` if
 *   it has too many keys
 */
export const createClientKey = async (ctx: Context, seen: ProjectRow): Promise<ClientKeyRow> => {
  requireAbility(ctx, seen, 'admin_error_tracking');
  const key = newPublicKey();
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'admin_error_tracking');
    requireIntegrated(await readSettings(tx, project.id));
    const { count } = await tx.db
      .selectFrom('error_tracking_client_keys')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    if (count >= MAX_CLIENT_KEYS) throw invalid({ base: [`has too many client keys (maximum is ${MAX_CLIENT_KEYS})`] });
    const row = await tx.db
      .insertInto('error_tracking_client_keys')
      .values({
        project_id: project.id,
        digest: digestToken(key),
        sealed_key: encrypt(tx.services.secretKey, key, KEY_PURPOSE),
        created_by_id: tx.actor.userId,
      })
      .returning(clientKeyColumns)
      .executeTakeFirstOrThrow();
    tx.emit(clientKeyCreated, {
      ...maintainersOf(project, { type: 'ErrorTrackingClientKey', id: row.id }),
      payload: { id: row.id, project_id: project.id },
    });
    return row;
  });
};

/**
 * Deletes a client key. Applications that use it are refused from now on.
 *
 * @throws DomainError `forbidden` below Maintainer, `not_found`
 */
export const deleteClientKey = async (ctx: Context, seen: ProjectRow, id: number): Promise<ClientKeyRow> => {
  requireAbility(ctx, seen, 'admin_error_tracking');
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'admin_error_tracking');
    requireIntegrated(await readSettings(tx, project.id));
    const row = await tx.db
      .deleteFrom('error_tracking_client_keys')
      .where('id', '=', id)
      .where('project_id', '=', project.id)
      .returning(clientKeyColumns)
      .executeTakeFirst();
    if (!row) throw notFound('Client Key');
    tx.emit(clientKeyDeleted, {
      ...maintainersOf(project, { type: 'ErrorTrackingClientKey', id }),
      payload: { id, project_id: project.id },
    });
    return row;
  });
};

/** Turns error tracking on or off. @throws DomainError `not_found` (Project), `forbidden` below Maintainer */
export const updateSettings = async (
  ctx: Context,
  seen: ProjectRow,
  given: { readonly [K in keyof Settings]?: Settings[K] | undefined },
): Promise<Settings> => {
  requireAbility(ctx, seen, 'admin_error_tracking');
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'admin_error_tracking');
    const before = await readSettings(tx, project.id);
    const after = { active: given.active ?? before.active, integrated: given.integrated ?? before.integrated };
    if (after.active === before.active && after.integrated === before.integrated) return before;
    await tx.db
      .insertInto('error_tracking_settings')
      .values({ project_id: project.id, ...after })
      .onConflict((clash) => clash.column('project_id').doUpdateSet({ ...after, updated_at: sql`now()` }))
      .execute();
    tx.emit(settingsUpdated, {
      ...maintainersOf(project, { type: 'Project', id: project.id }),
      payload: { project_id: project.id, ...after },
    });
    return after;
  });
};
