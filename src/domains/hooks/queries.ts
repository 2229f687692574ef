import { sql } from 'kysely';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import { type GroupRow, getGroup } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

/** A hook as its owners see it: of what is secret only whether and under which names it is there. */
export interface HookRow {
  readonly id: number;
  readonly namespace_id: number | null;
  readonly project_id: number | null;
  readonly url: string;
  readonly name: string;
  readonly description: string;
  readonly triggers: readonly string[];
  readonly push_events_branch_filter: string | null;
  readonly branch_filter_strategy: string;
  readonly enable_ssl_verification: boolean;
  readonly custom_webhook_template: string | null;
  readonly recent_failures: number;
  readonly disabled_until: string | null;
  readonly disabled_permanently: boolean;
  readonly created_at: string;
  readonly updated_at: string;
  readonly has_token: boolean;
  readonly has_signing_token: boolean;
  readonly header_keys: readonly string[];
  readonly variable_keys: readonly string[];
}

const keysOf = (kind: 'header' | 'url_variable') => sql<string[]>`array(
  select v.key from webhook_values v where v.webhook_id = webhooks.id and v.kind = ${sql.lit(kind)} order by v.key)`;

const hookQuery = (db: Context['db']) =>
  db
    .selectFrom('webhooks')
    .select([
      'webhooks.id',
      'webhooks.namespace_id',
      'webhooks.project_id',
      'webhooks.url',
      'webhooks.name',
      'webhooks.description',
      'webhooks.triggers',
      'webhooks.push_events_branch_filter',
      'webhooks.branch_filter_strategy',
      'webhooks.enable_ssl_verification',
      'webhooks.custom_webhook_template',
      'webhooks.recent_failures',
      'webhooks.disabled_until',
      'webhooks.disabled_permanently',
      'webhooks.created_at',
      'webhooks.updated_at',
      sql<boolean>`webhooks.token is not null`.as('has_token'),
      sql<boolean>`webhooks.signing_token is not null`.as('has_signing_token'),
      keysOf('header').as('header_keys'),
      keysOf('url_variable').as('variable_keys'),
    ]);

/** The group, if the caller may administer its hooks. @throws `not_found` (Group), `forbidden` */
export const getHookGroup = async (ctx: Context, idOrPath: IdOrPath): Promise<GroupRow> => {
  const group = await getGroup(ctx, idOrPath);
  requireGroupAbility(ctx, group, 'admin_hook');
  return group;
};

/** The group's own hooks, oldest first. For whom `getHookGroup` let through. */
export const listHooks = (ctx: Context, group: Pick<GroupRow, 'id'>): List<HookRow> =>
  listOf<'webhooks', HookRow>(ctx.db, hookQuery(ctx.db).where('namespace_id', '=', group.id), [byId], 'asc');

/** The hooks of each of many groups, oldest first. For groups whose hooks the caller may administer. */
export const listHooksBelow = (ctx: Context): BatchedList<HookRow> =>
  batchedListOf<'webhooks', HookRow>(
    ctx.db,
    (groupId) => hookQuery(ctx.db).where('namespace_id', '=', groupId),
    [byId],
    'asc',
  );

/** A hook of the group. @throws `not_found` (Hook) */
export const getHook = async (ctx: Context, group: Pick<GroupRow, 'id'>, id: number): Promise<HookRow> => {
  const hook = await hookQuery(ctx.db)
    .where('webhooks.id', '=', id)
    .where('namespace_id', '=', group.id)
    .executeTakeFirst();
  if (!hook) throw notFound('Hook');
  return hook;
};

/** A hook by its id alone, with its group. @throws `not_found` where the caller may not know of it, `forbidden` */
export const getHookById = async (ctx: Context, id: number): Promise<{ group: GroupRow; hook: HookRow }> => {
  const hook = await hookQuery(ctx.db).where('webhooks.id', '=', id).executeTakeFirst();
  if (hook?.namespace_id == null) throw notFound('Hook');
  const group = await getHookGroup(ctx, { id: hook.namespace_id });
  return { group, hook };
};

const byId: SortKey<{ readonly id: number }> = { by: sql.ref('webhooks.id'), of: (row) => row.id };
