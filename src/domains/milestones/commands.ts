import { sql } from 'kysely';
import { differences, newValues } from '#domains/planning/changes.ts';
import {
  type Container,
  containerScope,
  groupOf,
  lockContainer,
  ownerColumns,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import { isTitleTaken, trimTitle } from '#domains/planning/titles.ts';
import { nextIid } from '#domains/projects/insert.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { invalid, requireUnchanged } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import {
  type MilestonePayload,
  milestoneClosed,
  milestoneCreated,
  milestoneDeleted,
  milestoneReopened,
  milestoneUpdated,
} from './events.ts';
import type { MilestoneStateEvent } from './model.ts';
import { getMilestone, type MilestoneRow } from './queries.ts';

/** The details that a new milestone and a change share. */
export interface MilestoneDetails {
  readonly description?: string | null | undefined;
  readonly due_date?: string | null | undefined;
  readonly start_date?: string | null | undefined;
}

export interface NewMilestone extends MilestoneDetails {
  readonly title: string;
}

export interface MilestoneChanges extends MilestoneDetails {
  readonly title?: string | undefined;
  readonly state_event?: MilestoneStateEvent | undefined;
}

/** Creates a milestone of a group or project. @throws DomainError `forbidden`, `invalid` */
export const createMilestone = async (ctx: Context, seen: Container, input: NewMilestone): Promise<MilestoneRow> => {
  requireContainerAbility(ctx, seen, 'admin_milestone');
  const title = readTitle(input.title);
  checkDates(input.start_date ?? null, input.due_date ?? null);
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_milestone');
    await checkFree(tx, container, title, null);
    return insertMilestone(tx, container, { ...input, title });
  });
};

/** Inserts a milestone with the next number. The caller has checked it. @throws DomainError `invalid` for a taken title */
export const insertMilestone = async (
  tx: Tx,
  container: Container,
  input: NewMilestone & { readonly state?: string },
): Promise<MilestoneRow> => {
  const { id } = await tx.db
    .insertInto('milestones')
    .values({
      ...ownerColumns(container),
      iid: await nextMilestoneIid(tx, container),
      title: input.title,
      description: input.description ?? null,
      due_date: input.due_date ?? null,
      start_date: input.start_date ?? null,
      ...(input.state === undefined ? {} : { state: input.state }),
    })
    .returning('id')
    .executeTakeFirstOrThrow()
    .catch(asTaken);
  const milestone = await getMilestone(tx, container, id);
  tx.emit(milestoneCreated, { ...about(container, milestone), payload: payloadOf(milestone) });
  return milestone;
};

/** Changes, closes or activates a milestone of the container. @throws DomainError `forbidden`, `invalid` */
export const updateMilestone = async (
  ctx: Context,
  seen: Container,
  given: MilestoneRow,
  input: MilestoneChanges,
): Promise<MilestoneRow> => {
  requireContainerAbility(ctx, seen, 'admin_milestone');
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_milestone');
    const before = await lockMilestone(tx, container, given.id);
    const changes = differences(
      { ...before },
      {
        title: input.title === undefined ? undefined : readTitle(input.title),
        description: input.description,
        due_date: input.due_date,
        start_date: input.start_date,
        state: input.state_event && (input.state_event === 'close' ? 'closed' : 'active'),
      },
    );
    if (Object.keys(changes).length === 0) return before;
    const dates = { ...before, ...input };
    checkDates(dates.start_date ?? null, dates.due_date ?? null);
    if (changes.title) await checkFree(tx, container, String(changes.title.current), before.id);
    await tx.db
      .updateTable('milestones')
      .set({ ...newValues(changes), updated_at: sql`now()` })
      .where('id', '=', before.id)
      .execute()
      .catch(asTaken);
    const after = await getMilestone(tx, container, before.id);
    const kind = !changes.state ? milestoneUpdated : after.state === 'closed' ? milestoneClosed : milestoneReopened;
    tx.emit(kind, { ...about(container, after), payload: { ...payloadOf(after), changes } });
    return after;
  });
};

/**
 * Deletes a milestone of the container. Its issues and merge requests stay, without a milestone. @throws DomainError
 * `forbidden`, `modified`
 */
export const deleteMilestone = async (
  ctx: Context,
  seen: Container,
  given: MilestoneRow,
  unchangedSince: Date | null = null,
): Promise<void> => {
  requireContainerAbility(ctx, seen, 'admin_milestone');
  await ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_milestone');
    const milestone = await lockMilestone(tx, container, given.id);
    requireUnchanged(milestone, unchangedSince);
    await tx.db.deleteFrom('milestones').where('id', '=', milestone.id).execute();
    tx.emit(milestoneDeleted, { ...about(container, milestone), payload: payloadOf(milestone) });
  });
};

/**
 * Turns a milestone of a project into one of its group. Its issues and merge requests keep it. Milestones with the same
 * title in other projects below the group are merged into it.
 *
 * @throws DomainError `not_found`, `forbidden`, `bad_request` if the project is not in a group, `invalid` if the group or
 * one above it has a milestone of this title
 */
export const promoteMilestone = async (ctx: Context, project: ProjectRow, id: number): Promise<MilestoneRow> => {
  const source: Container = { kind: 'project', project };
  requireContainerAbility(ctx, source, 'read_milestone');
  await getMilestone(ctx, source, id);
  const group = await groupOf(ctx, project);
  requireContainerAbility(ctx, source, 'admin_milestone');
  requireContainerAbility(ctx, group, 'admin_milestone');
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, group, 'admin_milestone');
    const before = await lockMilestone(tx, source, id);
    await checkFree(tx, container, before.title, before.id);
    await mergeInto(tx, group.group.id, before);
    await tx.db
      .updateTable('milestones')
      .set({ ...ownerColumns(container), iid: await nextMilestoneIid(tx, container), updated_at: sql`now()` })
      .where('id', '=', before.id)
      .execute()
      .catch(asTaken);
    const after = await getMilestone(tx, container, before.id);
    const changes = {
      project_id: { previous: before.project_id, current: null },
      group_id: { previous: null, current: after.namespace_id },
    };
    tx.emit(milestoneUpdated, { ...about(container, after), payload: { ...payloadOf(after), changes } });
    return after;
  });
};

/** The tables that refer to milestones. */
const REFERRING = ['issues', 'merge_requests', 'release_milestones', 'resource_events'] as const;

/** Merges the milestones with the same title in other projects below the group into this one, and deletes them. */
const mergeInto = async (tx: Tx, groupId: number, { id, title }: MilestoneRow): Promise<void> => {
  const { rows: others } = await sql<{ id: number; project_id: number }>`
    select m.id, m.project_id from milestones m
    join projects p on p.id = m.project_id join namespaces n on n.id = p.namespace_id
    where m.title = ${title} and m.id <> ${id} and n.traversal_ids @> array[${groupId}::bigint]
    order by m.id for update of m`.execute(tx.db);
  const ids = others.map((other) => other.id);
  if (ids.length === 0) return;
  const asHub = tx.as(systemActor);
  const projects = await projectsByIds(
    asHub,
    others.map(({ project_id }) => project_id),
    ROW,
  );
  for (const other of others) {
    const project = projects.get(other.project_id);
    if (!project) continue;
    const container: Container = { kind: 'project', project };
    const row = await getMilestone(asHub, container, other.id);
    tx.emit(milestoneDeleted, { ...about(container, row), payload: payloadOf(row) });
  }
  for (const table of REFERRING) {
    await sql`update ${sql.table(table)} set milestone_id = ${id} where milestone_id = any (${ids}::bigint[])`.execute(
      tx.db,
    );
  }
  await tx.db.deleteFrom('milestones').where('id', 'in', ids).execute();
};

const nextMilestoneIid = async (tx: Tx, container: Container): Promise<number> => {
  if (container.kind === 'project') return nextIid(tx, container.project.id, 'milestone');
  const { last_milestone_iid } = await tx.db
    .insertInto('namespace_counters')
    .values({ namespace_id: container.group.id, last_milestone_iid: 1 })
    .onConflict((conflict) =>
      conflict
        .column('namespace_id')
        .doUpdateSet({ last_milestone_iid: sql`namespace_counters.last_milestone_iid + 1` }),
    )
    .returning('last_milestone_iid')
    .executeTakeFirstOrThrow();
  return last_milestone_iid;
};

const lockMilestone = async (tx: Tx, container: Container, id: number): Promise<MilestoneRow> => {
  await tx.db.selectFrom('milestones').select('id').where('id', '=', id).forUpdate().execute();
  return getMilestone(tx, container, id);
};

const TAKEN = { title: ['already being used for another group or project milestone.'] };

const checkFree = async (tx: Tx, container: Container, title: string, exceptId: number | null): Promise<void> => {
  if (await isTitleTaken(tx, 'milestones', container, title, exceptId)) throw invalid(TAKEN);
};

/** Maps a violation of a unique index by a concurrent request to `invalid`. */
const asTaken = (error: unknown): never => {
  if (brokenConstraint(error)?.endsWith('_title')) throw invalid(TAKEN);
  throw error;
};

const readTitle = (given: string): string => {
  const title = trimTitle(given, 'title');
  // These words have a meaning in filters.
  if (/^(none|any|#upcoming|#started)$/i.test(title)) throw invalid({ title: ['is a reserved word'] });
  return title;
};

const checkDates = (start: string | null, due: string | null): void => {
  if (start !== null && due !== null && due < start) throw invalid({ due_date: ['must be greater than start date'] });
};

const about = (container: Container, milestone: MilestoneRow) => ({
  ...containerScope(container),
  subject: { type: 'Milestone', id: milestone.id },
});

const payloadOf = (milestone: MilestoneRow): Required<MilestonePayload> => ({
  id: milestone.id,
  iid: milestone.iid,
  title: milestone.title,
  description: milestone.description,
  state: milestone.state,
  due_date: milestone.due_date,
  start_date: milestone.start_date,
  project_id: milestone.project_id,
  group_id: milestone.namespace_id,
  created_at: isoTime(milestone.created_at),
  updated_at: isoTime(milestone.updated_at),
});
