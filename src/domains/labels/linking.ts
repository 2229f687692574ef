import type { Changes } from '#domains/planning/changes.ts';
import { type Issuable, recordHistory } from '#domains/planning/history.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { ensureLabels } from './commands.ts';
import { availableLabelsByIds, type LabelRow, labelsByIssueIds, labelsByMergeRequestIds } from './queries.ts';
import { hookLabel } from './webhook.ts';

// The labels of issues and merge requests.

/** How the labels of an issue or merge request should change. Titles: missing labels are created. */
export interface LabelChanges {
  /** Replaces all labels. */
  readonly labels?: readonly string[] | undefined;
  readonly label_ids?: readonly number[] | undefined;
  readonly add_labels?: readonly string[] | undefined;
  readonly add_label_ids?: readonly number[] | undefined;
  readonly remove_labels?: readonly string[] | undefined;
  readonly remove_label_ids?: readonly number[] | undefined;
}

/**
 * Changes the labels of an issue or merge request, which the caller has locked. Returns the change for events and
 * webhook bodies; null if nothing changed.
 *
 * @throws DomainError as `wantedLabels`
 */
export const changeLabels = async (
  tx: Tx,
  project: ProjectRow,
  of: Issuable,
  changes: LabelChanges,
): Promise<Changes[string] | null> => {
  const found =
    'issue_id' in of
      ? (await labelsByIssueIds(tx, [of.issue_id])).get(of.issue_id)
      : (await labelsByMergeRequestIds(tx, [of.merge_request_id])).get(of.merge_request_id);
  const before = found ?? [];
  const after = await wantedLabels(tx, project, before, changes);
  if (!(await setLabels(tx, of, before, after))) return null;
  return { previous: before.map(hookLabel), current: after.map(hookLabel) };
};

/** The most labels of one issue or merge request. */
export const MAX_LABELS = 1_000;

/**
 * Returns the labels that remain after the changes.
 *
 * @throws DomainError `invalid` for an id that the project cannot use, and for more labels than `MAX_LABELS`
 */
export const wantedLabels = async (
  tx: Tx,
  project: ProjectRow,
  before: readonly LabelRow[],
  changes: LabelChanges,
): Promise<LabelRow[]> => {
  const { labels = [], label_ids = [], add_labels = [], add_label_ids = [] } = changes;
  if ([labels, label_ids, add_labels, add_label_ids].some(({ length }) => length > MAX_LABELS)) throw tooMany();
  const byTitle = (titles: readonly string[] | undefined) => (titles ? ensureLabels(tx, project, titles) : []);
  const byId = async (labelIds: readonly number[] | undefined): Promise<LabelRow[]> => {
    if (!labelIds?.length) return [];
    const found = await availableLabelsByIds(tx, project, labelIds);
    if (found.length < new Set(labelIds).size) throw invalid({ label_ids: ['is invalid'] });
    return found;
  };
  const isReplaced = changes.labels !== undefined || changes.label_ids !== undefined;
  const wanted = new Map<number, LabelRow>();
  for (const label of [
    ...(isReplaced ? [] : before),
    ...(await byTitle(changes.labels)),
    ...(await byId(changes.label_ids)),
    ...(await byTitle(changes.add_labels)),
    ...(await byId(changes.add_label_ids)),
  ]) {
    wanted.set(label.id, label);
  }
  // Imports may have brought more.
  if (wanted.size > Math.max(MAX_LABELS, before.length)) throw tooMany();
  const removed = new Set(changes.remove_labels?.map((title) => title.trim()));
  for (const label of wanted.values()) {
    if (removed.has(label.title) || changes.remove_label_ids?.includes(label.id)) wanted.delete(label.id);
  }
  return [...wanted.values()];
};

const tooMany = () => invalid({ labels: [`may be at most ${MAX_LABELS}`] });

/** Links the labels, unlinks the others, and records both in the history. Returns false if nothing changed. */
export const setLabels = async (
  tx: Tx,
  of: Issuable,
  before: readonly LabelRow[],
  after: readonly LabelRow[],
): Promise<boolean> => {
  const had = new Set(before.map(({ id }) => id));
  const has = new Set(after.map(({ id }) => id));
  const added = [...has].filter((id) => !had.has(id)).sort((a, b) => a - b);
  const removed = [...had].filter((id) => !has.has(id)).sort((a, b) => a - b);
  if (added.length > 0) {
    await tx.db
      .insertInto('label_links')
      .values(added.map((label_id) => ({ label_id, ...of })))
      .execute();
  }
  if (removed.length > 0) {
    const links = tx.db.deleteFrom('label_links').where('label_id', 'in', removed);
    await ('issue_id' in of
      ? links.where('issue_id', '=', of.issue_id)
      : links.where('merge_request_id', '=', of.merge_request_id)
    ).execute();
  }
  await recordHistory(tx, of, [
    ...added.map((label_id) => ({ kind: 'label', action: 'add', label_id }) as const),
    ...removed.map((label_id) => ({ kind: 'label', action: 'remove', label_id }) as const),
  ]);
  return added.length + removed.length > 0;
};
