import { type Selectable, sql } from 'kysely';
import { can } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Transfers } from '#platform/db/tables.ts';
import { unauthenticated } from '#platform/errors.ts';
import { readCounts } from './progress.ts';

export const TRANSFER_KINDS = ['export', 'import', 'relation_import'] as const;
export type TransferKind = (typeof TRANSFER_KINDS)[number];
export const TRANSFER_STATES = ['waiting', 'running', 'finished', 'failed'] as const;
export type TransferState = (typeof TRANSFER_STATES)[number];

/** The statuses that the kinds of transfers have in each state. */
const STATUSES: Readonly<Record<TransferState, readonly string[]>> = {
  waiting: ['queued', 'scheduled', 'created'],
  running: ['started'],
  finished: ['finished'],
  failed: ['failed'],
};

type Row = Selectable<Transfers>;

/** An export, an import or a relation import. */
export interface Transfer {
  /** `<kind>:<id>`. */
  readonly key: string;
  readonly kind: TransferKind;
  readonly state: TransferState;
  /** The type of an import, or the relation of a relation import. */
  readonly detail: string | null;
  readonly project_id: number;
  readonly user_id: number | null;
  readonly percentage: number;
  readonly relations: unknown;
  readonly bytes: number;
  readonly total_bytes: number | null;
  readonly error: string | null;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
  /** The relations that earlier tries had finished when the import was retried. */
  readonly items_before: number;
  readonly percentage_before: number;
}

export interface TransferFilter {
  readonly kind?: TransferKind | null | undefined;
  readonly state?: TransferState | null | undefined;
}

/** Returns the transfers that the caller started, newest first. Administrators see those of everybody. */
export const listTransfers = (ctx: Context, { kind, state }: TransferFilter): List<Transfer> => {
  const { isAdmin, userId } = ctx.actor;
  if (userId === null) throw unauthenticated();
  let query = ctx.db.selectFrom('transfers').selectAll();
  if (!isAdmin) query = query.where('user_id', '=', userId);
  if (kind) query = query.where('kind', '=', kind);
  if (state) query = query.where('status', 'in', STATUSES[state]);
  const rows = listOf(ctx.db, query, NEWEST, 'desc');
  return {
    rows: async (window) => (await rows.rows(window)).map(toTransfer),
    count: (atMost) => rows.count(atMost),
    cursorOf: ({ created_at, key }) => [created_at, key],
  };
};

const NEWEST: readonly SortKey<Row>[] = [
  { by: sql`transfers.created_at`, of: ({ created_at }) => created_at },
  { by: sql`transfers.key`, of: ({ key }) => key },
];

/** Returns the transfer if the caller started it or may export its project. */
export const findTransfer = async (ctx: Context, key: string): Promise<Transfer | null> => {
  const [kind, id] = /^(export|import|relation_import):(\d{1,15})$/.exec(key)?.slice(1) ?? [];
  if (!kind || !id) return null;
  const row = await ctx.db
    .selectFrom('transfers')
    .selectAll()
    .where('kind', '=', kind)
    .where('id', '=', Number(id))
    .executeTakeFirst();
  if (!row || ctx.actor.userId === null) return null;
  if (row.user_id === ctx.actor.userId || ctx.actor.isAdmin) return toTransfer(row);
  const project = row.project_id === null ? null : await findProject(ctx, { id: row.project_id });
  return project && can(ctx, project, 'export') ? toTransfer(row) : null;
};

/** The columns of a view may all be null to the compiler. */
const toTransfer = (row: Row): Transfer => ({
  ...row,
  key: row.key ?? '',
  kind: TRANSFER_KINDS.find((each) => each === row.kind) ?? 'import',
  state: TRANSFER_STATES.find((state) => STATUSES[state].includes(row.status ?? '')) ?? 'failed',
  project_id: row.project_id ?? 0,
  percentage: row.percentage ?? 0,
  bytes: row.bytes ?? 0,
  created_at: row.created_at ?? '',
  items_before: row.items_before ?? 0,
  percentage_before: row.percentage_before ?? 0,
});

/** Returns the seconds that a running transfer takes from now on, if it goes on at its pace. Null if unknown. */
export const remainingSeconds = (
  ctx: Pick<Context, 'clock'>,
  { state, started_at, percentage, percentage_before }: Transfer,
): number | null => {
  const elapsed = elapsedSeconds(ctx, started_at);
  const done = percentage - percentage_before;
  if (state !== 'running' || elapsed === null || done <= 0) return null;
  return Math.ceil((elapsed * (100 - percentage)) / done);
};

/** Returns how many items a second a running transfer has finished since it was started or retried. Null if unknown. */
export const itemRate = (
  ctx: Pick<Context, 'clock'>,
  { state, started_at, relations, items_before }: Transfer,
): number | null => {
  const elapsed = elapsedSeconds(ctx, started_at);
  if (state !== 'running' || !elapsed) return null;
  const items = Object.values(readCounts(relations)).reduce((sum, { done }) => sum + done, 0);
  return Math.max(0, items - items_before) / elapsed;
};

const elapsedSeconds = ({ clock }: Pick<Context, 'clock'>, since: string | null): number | null =>
  since === null ? null : Math.max(0, (clock.now().getTime() - Date.parse(since)) / 1_000);
