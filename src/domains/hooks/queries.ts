import { type RawBuilder, sql } from 'kysely';
import type { Container, ContainerKind, ContainerOrInstance } from '#domains/planning/container.ts';
import { type CredentialOrigin, originOf } from '#domains/tokens/origins.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { DomainError, notFound } from '#platform/errors.ts';
import type { ValueKind } from './model.ts';
import { getHookContainer } from './policy.ts';

/** A hook for the people who administer it. Secrets appear only as their names or their presence. */
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
  readonly created_by_id: number | null;
  /** The application that created the hook or set its URL, or null. */
  readonly origin: CredentialOrigin | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly has_token: boolean;
  readonly has_signing_token: boolean;
  readonly header_keys: readonly string[];
  readonly variable_keys: readonly string[];
}

const keysOf = (kind: ValueKind) => sql<string[]>`array(
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
      'webhooks.created_by_id',
      originOf('webhooks'),
      'webhooks.created_at',
      'webhooks.updated_at',
      sql<boolean>`webhooks.token is not null`.as('has_token'),
      sql<boolean>`webhooks.signing_token is not null`.as('has_signing_token'),
      keysOf('header').as('header_keys'),
      keysOf('url_variable').as('variable_keys'),
    ]);

const COLUMNS = { group: 'namespace_id', project: 'project_id' } as const;

/** The id of the group or project, or 0 for the instance. */
export const idOfOwner = (owner: ContainerOrInstance): number =>
  owner.kind === 'group' ? owner.group.id : owner.kind === 'project' ? owner.project.id : 0;

/** SQL: whether the row `webhooks` belongs to the owner. */
export const isOwnedBy = (owner: ContainerOrInstance): RawBuilder<boolean> =>
  owner.kind === 'instance'
    ? sql<boolean>`(webhooks.namespace_id is null and webhooks.project_id is null)`
    : sql<boolean>`${sql.ref(`webhooks.${COLUMNS[owner.kind]}`)} = ${idOfOwner(owner)}`;

const hooksOf = (ctx: Context, owner: ContainerOrInstance) => hookQuery(ctx.db).where(isOwnedBy(owner));

/**
 * Returns the hooks of a group, a project or the instance, oldest first. The caller must have checked access with
 * `getHookOwner`.
 */
export const listHooks = (ctx: Context, owner: ContainerOrInstance): List<HookRow> =>
  listOf<'webhooks', HookRow>(ctx.db, hooksOf(ctx, owner), [byId], 'asc');

/** Returns the hooks of many groups or projects, oldest first. The caller must check access. */
export const listHooksBelow = (ctx: Context, kind: ContainerKind): BatchedList<HookRow> =>
  batchedListOf<'webhooks', HookRow>(
    ctx.db,
    (containerId) => hookQuery(ctx.db).where(COLUMNS[kind], '=', containerId),
    [byId],
    'asc',
  );

/** Returns a hook of the group, the project or the instance. @throws `not_found` (Hook) */
export const getHook = async (ctx: Context, owner: ContainerOrInstance, id: number): Promise<HookRow> => {
  const hook = await hooksOf(ctx, owner).where('webhooks.id', '=', id).executeTakeFirst();
  if (!hook) throw notFound('Hook');
  return hook;
};

/** Returns a hook of a group or project by id, with its container. @throws `not_found` if the caller may not know of it, `forbidden` */
export const getHookById = async (ctx: Context, id: number): Promise<{ container: Container; hook: HookRow }> => {
  const hook = await hookQuery(ctx.db).where('webhooks.id', '=', id).executeTakeFirst();
  if (!hook || (hook.namespace_id === null && hook.project_id === null)) throw notFound('Hook');
  const container = await getHookContainer(
    ctx,
    hook.namespace_id === null
      ? { kind: 'project', id: { id: hook.project_id ?? 0 } }
      : { kind: 'group', id: { id: hook.namespace_id } },
  ).catch((error: unknown) => {
    throw error instanceof DomainError && error.code === 'not_found' ? notFound('Hook') : error;
  });
  return { container, hook };
};

/** Returns hooks by id. The caller must check access. */
export const hooksByIds = async (ctx: Context, ids: readonly number[]): Promise<Map<number, HookRow>> => {
  const rows = await hookQuery(ctx.db).where(sql<boolean>`webhooks.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

const byId: SortKey<{ readonly id: number }> = { by: sql.ref('webhooks.id'), of: (row) => row.id };

/** The deliveries and hooks that wait or fail, of the whole hub. */
export interface DeliveryCounts {
  /** Deliveries that are due. */
  readonly due: number;
  /** Deliveries that are tried again later, or wait for a blocked hook. */
  readonly later: number;
  /** Time since the oldest of those that are due became so. Null if none is. */
  readonly oldest_seconds: number | null;
  /** Hooks that failed too often and get no deliveries until somebody tests them. */
  readonly disabled_hooks: number;
  /** Hooks that failed, and get their deliveries later. */
  readonly paused_hooks: number;
}

/** Counts them for operators. The caller must have been checked. */
export const countDeliveries = async ({ db }: Pick<Context, 'db'>): Promise<DeliveryCounts> => {
  const { rows } = await sql<DeliveryCounts>`
    select queue.*, hooks.*
    from (
      select count(*) filter (where next_attempt_at <= now())::int as due,
        count(*) filter (where next_attempt_at > now())::int as later,
        extract(epoch from now() - min(next_attempt_at) filter (where next_attempt_at <= now()))::int as oldest_seconds
      from webhook_queue
    ) queue, (
      select count(*) filter (where disabled_permanently)::int as disabled_hooks,
        count(*) filter (where not disabled_permanently and disabled_until > now())::int as paused_hooks
      from webhooks
    ) hooks`.execute(db);
  const [counts] = rows;
  if (!counts) throw new Error('counts have a row');
  return counts;
};
