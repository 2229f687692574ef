import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { z } from 'zod';
import type { Changes } from '#domains/planning/changes.ts';
import type { HistoryEntry, Issuable } from '#domains/planning/history.ts';
import type { SystemNote } from '#domains/planning/system-notes.ts';
import { humanDuration } from '#domains/planning/time-tracking.ts';
import type { Tx } from '#platform/context.ts';

// System notes record what happened to an issue or merge request, in the words of upstream. Other domains record them
// through the ports in planning/system-notes.ts.

/** Writes system notes by the acting user, in the given order. They update nothing and trigger no hooks. */
export const writeSystemNotes = async (tx: Tx, of: Issuable, notes: readonly SystemNote[]): Promise<void> => {
  if (notes.length === 0) return;
  const isIssue = 'issue_id' in of;
  const project_id = isIssue
    ? sql<number>`(select project_id from issues where id = ${of.issue_id})`
    : sql<number>`(select project_id from merge_requests where id = ${of.merge_request_id})`;
  await tx.db
    .insertInto('notes')
    .values(
      notes.map(({ action, body, discussion_id, internal = false }) => ({
        ...of,
        project_id,
        noteable_type: isIssue ? 'Issue' : 'MergeRequest',
        system: true,
        system_note_action: action,
        note: body,
        confidential: internal,
        author_id: tx.actor.userId,
        discussion_id: discussion_id ?? randomBytes(20).toString('hex'),
      })),
    )
    .execute();
};

/** Writes a system note for each changed attribute that has one. */
export const writeChangeNotes = (tx: Tx, of: Issuable, changes: Changes): Promise<void> =>
  writeSystemNotes(tx, of, changeNotes('issue_id' in of ? 'issue' : 'merge request', changes));

const people = z.array(z.object({ username: z.string() }));

/** Returns the system notes for changed attributes. */
export const changeNotes = (what: 'issue' | 'merge request', changes: Changes): SystemNote[] => {
  const notes: SystemNote[] = [];
  const { title, description, assignees, reviewers, target_branch, discussion_locked } = changes;
  const { confidential, due_date, weight, issue_type, draft, time_estimate } = changes;
  if (draft) {
    notes.push({ action: 'title', body: `marked this merge request as **${draft.current ? 'draft' : 'ready'}**` });
  }
  if (title) {
    const [before, after] = [withoutMark(title.previous), withoutMark(title.current)];
    if (before !== after) notes.push({ action: 'title', body: `changed title from ${marked(before, after)}` });
  }
  if (description) notes.push({ action: 'description', body: 'changed the description' });
  if (target_branch) {
    const [from, to] = [code(target_branch.previous), code(target_branch.current)];
    notes.push({ action: 'branch', body: `changed target branch from ${from} to ${to}` });
  }
  if (assignees) {
    const body = peopleChanged(assignees, { added: 'assigned to', removed: 'unassigned' });
    if (body) notes.push({ action: 'assignee', body });
  }
  if (reviewers) {
    const body = peopleChanged(reviewers, { added: 'requested review from', removed: 'removed review request for' });
    if (body) notes.push({ action: 'reviewer', body });
  }
  if (discussion_locked && Boolean(discussion_locked.previous) !== Boolean(discussion_locked.current)) {
    const isLocked = Boolean(discussion_locked.current);
    const action = isLocked ? 'locked' : 'unlocked';
    notes.push({ action, body: `${action} the discussion in this ${what}` });
  }
  if (confidential) {
    notes.push(
      confidential.current
        ? { action: 'confidential', body: 'made the issue confidential' }
        : { action: 'visible', body: 'made the issue visible to everyone' },
    );
  }
  if (issue_type) {
    notes.push({ action: 'issue_type', body: `changed type from ${issue_type.previous} to ${issue_type.current}` });
  }
  if (due_date) {
    const body = due_date.current === null ? 'removed due date' : `changed due date to ${due_date.current}`;
    notes.push({ action: 'due_date', body });
  }
  if (weight) {
    const body = weight.current === null ? 'removed the weight' : `set weight to **${weight.current}**`;
    notes.push({ action: 'weight', body });
  }
  if (time_estimate) {
    const estimate = humanDuration(Number(time_estimate.current));
    const body = estimate === null ? 'removed time estimate' : `changed time estimate to ${estimate}`;
    notes.push({ action: 'time_tracking', body });
  }
  return notes;
};

/** The mark of a draft has a note of its own. */
const withoutMark = (title: unknown): string =>
  String(title ?? '').replace(/^(?:\s*(?:\[draft\]|\(draft\)|draft:)\s*)+/i, '');

/** Marks the part of the title that differs, as upstream does. */
const marked = (before: string, after: string): string => {
  const [old, now] = [[...before], [...after]];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const shown = (text: readonly string[], [open, close]: readonly [string, string]) => {
    const changed = text.slice(start, text.length - end).join('');
    const rest = end === 0 ? '' : text.slice(-end).join('');
    return `**${text.slice(0, start).join('')}${changed && `${open}${changed}${close}`}${rest}**`;
  };
  return `${shown(old, ['{-', '-}'])} to ${shown(now, ['{+', '+}'])}`;
};

const code = (name: unknown): string => `\`${name}\``;

const peopleChanged = (
  { previous, current }: Changes[string],
  words: { readonly added: string; readonly removed: string },
): string | null => {
  const names = (value: unknown) =>
    people
      .catch([])
      .parse(value ?? [])
      .map(({ username }) => `@${username}`);
  const [before, after] = [names(previous), names(current)];
  const parts = [
    [words.added, after.filter((name) => !before.includes(name))] as const,
    [words.removed, before.filter((name) => !after.includes(name))] as const,
  ];
  const said = parts.filter(([, list]) => list.length > 0).map(([verb, list]) => `${verb} ${list.join(', ')}`);
  return said.length === 0 ? null : said.join(' and ');
};

/** Writes system notes for entries of the history. */
export const writeHistoryNotes = async (tx: Tx, of: Issuable, entries: readonly HistoryEntry[]): Promise<void> =>
  writeSystemNotes(tx, of, [
    ...entries.flatMap(({ state }) => (state === undefined ? [] : STATES[state])),
    ...(await milestoneNotes(tx, entries)),
    ...(await labelNotes(tx, entries)),
  ]);

const STATES = {
  closed: { action: 'closed', body: 'closed' },
  reopened: { action: 'opened', body: 'reopened' },
  merged: { action: 'merged', body: 'merged' },
} as const satisfies Record<NonNullable<HistoryEntry['state']>, SystemNote>;

const milestoneNotes = async (tx: Tx, entries: readonly HistoryEntry[]): Promise<SystemNote[]> => {
  const changes = entries.filter(({ kind }) => kind === 'milestone');
  if (changes.length === 0) return [];
  const added = changes.find(({ action }) => action === 'add');
  if (!added) return [{ action: 'milestone', body: 'removed milestone' }];
  const milestone = await tx.db
    .selectFrom('milestones')
    .select('title')
    .where('id', '=', added.milestone_id ?? 0)
    .executeTakeFirst();
  return milestone ? [{ action: 'milestone', body: `changed milestone to %"${milestone.title}"` }] : [];
};

const labelNotes = async (tx: Tx, entries: readonly HistoryEntry[]): Promise<SystemNote[]> => {
  const changes = entries.filter(({ kind }) => kind === 'label');
  if (changes.length === 0) return [];
  const rows = await tx.db
    .selectFrom('labels')
    .select(['id', 'title'])
    .where(sql<boolean>`id = any (${changes.map(({ label_id }) => label_id ?? 0)}::bigint[])`)
    .execute();
  const titles = new Map(rows.map(({ id, title }) => [id, title]));
  const named = (wanted: 'add' | 'remove') => {
    const found = changes
      .filter(({ action }) => action === wanted)
      .flatMap(({ label_id }) => titles.get(label_id ?? 0) ?? [])
      .map((title) => (/^[\w.:-]+$/.test(title) ? `~${title}` : `~"${title}"`));
    if (found.length === 0) return [];
    return [`${wanted === 'add' ? 'added' : 'removed'} ${found.join(' ')} ${found.length === 1 ? 'label' : 'labels'}`];
  };
  const said = [...named('add'), ...named('remove')];
  return said.length === 0 ? [] : [{ action: 'label', body: said.join(' and ') }];
};
