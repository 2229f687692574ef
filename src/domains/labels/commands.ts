import { sql } from 'kysely';
import { differences, newValues } from '#domains/planning/changes.ts';
import {
  type Container,
  containerScope,
  lockContainer,
  ownerColumns,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import { isTitleTaken, trimTitle } from '#domains/planning/titles.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, invalid, notFound, requireUnchanged, requireValid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { readColor } from './colors.ts';
import { type LabelPayload, labelCreated, labelDeleted, labelUpdated } from './events.ts';
import { type LabelRow, labelsByTitles } from './queries.ts';

export interface NewLabel {
  readonly title: string;
  readonly color: string;
  readonly description?: string | null | undefined;
  readonly priority?: number | null | undefined;
  readonly archived?: boolean | undefined;
}

export type LabelChanges = { readonly [K in keyof NewLabel]?: NewLabel[K] | undefined };

const DEFAULT_COLOR = '#6699cc';
const MAX_DESCRIPTION = 10_000;

/**
 * Creates a label of a group or project.
 *
 * @throws DomainError `forbidden`, `invalid`, `conflict` if the title is taken here or in a group above
 */
export const createLabel = async (ctx: Context, seen: Container, input: NewLabel): Promise<LabelRow> => {
  requireContainerAbility(ctx, seen, 'admin_label');
  const title = readTitle(input.title);
  const color = readColor(input.color);
  checkDetails(input);
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_label');
    if (await isTitleTaken(tx, 'labels', container, title, null)) throw conflict('Label already exists');
    const [label] = await insertLabels(tx, container, [{ ...input, title, color }]);
    // A concurrent request has created it.
    if (!label) throw conflict('Label already exists');
    return label;
  });
};

/** Changes a label of the container itself. @throws DomainError `forbidden`, `invalid` */
export const updateLabel = async (
  ctx: Context,
  seen: Container,
  given: LabelRow,
  input: LabelChanges,
): Promise<LabelRow> => {
  requireContainerAbility(ctx, seen, 'admin_label');
  checkDetails(input);
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_label');
    const before = await lockLabel(tx, given.id);
    const changes = differences(before, {
      title: input.title === undefined ? undefined : readTitle(input.title),
      color: input.color === undefined ? undefined : readColor(input.color),
      description: input.description,
      priority: input.priority,
      archived: input.archived,
    });
    if (Object.keys(changes).length === 0) return before;
    if (changes.title && (await isTitleTaken(tx, 'labels', container, String(changes.title.current), before.id))) {
      throw invalid({ title: ['has already been taken'] });
    }
    const after = await tx.db
      .updateTable('labels')
      .set({ ...newValues(changes), updated_at: sql`now()` })
      .where('id', '=', before.id)
      .returningAll()
      .executeTakeFirstOrThrow();
    tx.emit(labelUpdated, { ...about(container, after), payload: { ...payloadOf(after), changes } });
    return after;
  });
};

/**
 * Deletes a label of the container itself, and removes it from all issues and merge requests. @throws DomainError
 * `forbidden`, `modified`
 */
export const deleteLabel = async (
  ctx: Context,
  seen: Container,
  given: LabelRow,
  unchangedSince: Date | null = null,
): Promise<void> => {
  requireContainerAbility(ctx, seen, 'admin_label');
  await ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_label');
    const label = await lockLabel(tx, given.id);
    requireUnchanged(label, unchangedSince);
    await tx.db.deleteFrom('labels').where('id', '=', label.id).execute();
    tx.emit(labelDeleted, { ...about(container, label), payload: payloadOf(label) });
  });
};

/**
 * Returns the labels with these titles that the project can use. Missing labels are created if the caller may create
 * labels, and left out otherwise. For issues and merge requests.
 */
export const ensureLabels = async (tx: Tx, project: ProjectRow, titles: readonly string[]): Promise<LabelRow[]> => {
  const wanted = [...new Set(titles.map((title) => title.trim()).filter(Boolean))];
  const found = await labelsByTitles(tx, project, wanted);
  const known = new Set(found.map((label) => label.title));
  const missing = wanted.filter((title) => !known.has(title));
  if (missing.length === 0 || !can(tx, project, 'admin_label')) return found;
  const container: Container = { kind: 'project', project };
  await insertLabels(
    tx,
    container,
    missing.map((title) => ({ title: readTitle(title, 'labels'), color: DEFAULT_COLOR })),
  );
  return labelsByTitles(tx, project, wanted);
};

/** Inserts labels with titles that the container does not have yet. Checks nothing. */
export const insertLabels = async (
  tx: Tx,
  container: Container,
  labels: readonly (NewLabel & { readonly lock_on_merge?: boolean })[],
): Promise<LabelRow[]> => {
  const rows = await tx.db
    .insertInto('labels')
    .values(
      labels.map(({ title, color, description = null, priority = null, archived = false, lock_on_merge = false }) => ({
        ...ownerColumns(container),
        title,
        color,
        description,
        priority,
        archived,
        lock_on_merge,
      })),
    )
    .onConflict((each) => each.doNothing())
    .returningAll()
    .execute();
  for (const row of rows) tx.emit(labelCreated, { ...about(container, row), payload: payloadOf(row) });
  return rows;
};

const checkDetails = ({ description, priority }: LabelChanges): void => {
  const problems: Record<string, string[]> = {};
  if (isLongerThan(description ?? '', MAX_DESCRIPTION)) problems.description = [tooLong(MAX_DESCRIPTION)];
  if (priority != null && priority < 0) problems.priority = ['must be greater than or equal to 0'];
  requireValid(problems);
};

const lockLabel = async (tx: Tx, id: number): Promise<LabelRow> => {
  const label = await tx.db.selectFrom('labels').selectAll().where('id', '=', id).forUpdate().executeTakeFirst();
  if (!label) throw notFound('Label');
  return label;
};

/** @param field The attribute that errors name */
const readTitle = (given: string, field: 'title' | 'labels' = 'title'): string => {
  const title = trimTitle(given, field);
  // A comma separates labels in lists. `none` and `any` have a meaning in filters.
  if (title.includes(',') || /^(none|any)$/i.test(title)) throw invalid({ [field]: ['is invalid'] });
  return title;
};

const about = (container: Container, label: LabelRow) => ({
  ...containerScope(container),
  subject: { type: 'Label', id: label.id },
});

const payloadOf = (label: LabelRow): LabelPayload => ({
  id: label.id,
  title: label.title,
  color: label.color,
  description: label.description,
  project_id: label.project_id,
  group_id: label.namespace_id,
});
