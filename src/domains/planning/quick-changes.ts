import { sql } from 'kysely';
import { can } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, forbidden } from '#platform/errors.ts';
import {
  type IssuableKind,
  isCommand,
  namesIn,
  type QuickAction,
  type QuickActionName,
  type QuickCommand,
  takeQuickActions,
} from './quick-actions.ts';
import { readDuration, type SpentTime } from './time-tracking.ts';

/** The changes by quick actions, as updates of issues and merge requests. */
export interface QuickChanges {
  title?: string;
  draft?: boolean;
  state_event?: 'close' | 'reopen';
  target_branch?: string;
  labels?: readonly string[];
  add_labels?: readonly string[];
  remove_labels?: readonly string[];
  milestone_id?: number | null;
  assignee_ids?: readonly number[];
  reviewer_ids?: readonly number[];
  discussion_locked?: boolean;
  time_estimate?: number;
  spent_time?: SpentTime;
  due_date?: string | null;
  weight?: number | null;
  confidential?: boolean;
}

export interface QuickResult {
  /** The text without the lines. */
  readonly text: string;
  readonly changes: QuickChanges;
  readonly subscribed: boolean | undefined;
  /**
   * The actions that are left to run, in order: only in comments on merge requests. Each judges the caller's rights
   * itself.
   */
  readonly commands: readonly { readonly name: QuickCommand; readonly argument: string }[];
}

/** The assignees before the actions run. */
interface People {
  readonly assignee_ids: readonly number[];
  readonly reviewer_ids: readonly number[];
}

/** Authors may do these too. All others need the right to change everything about it. */
const OF_AUTHORS: ReadonlySet<QuickActionName> = new Set([
  'title',
  'close',
  'reopen',
  'draft',
  'ready',
  'target_branch',
]);
const OF_READERS: ReadonlySet<QuickActionName> = new Set(['subscribe', 'unsubscribe']);

/** The most actions in one text, because some look names up. */
const MAX_ACTIONS = 100;

/**
 * Takes the quick actions out of a text, and returns what they change. Null if there are none.
 *
 * @param isAuthor The caller wrote the issue or merge request, or is about to
 * @throws DomainError `forbidden` for an action that the caller may not do, `bad_request` for a bad argument and for more
 *   actions than `MAX_ACTIONS`
 */
export const readQuickActions = async (
  ctx: Context,
  project: ProjectRow,
  kind: IssuableKind,
  given: string | null | undefined,
  {
    isAuthor,
    people,
    inComment = false,
  }: { readonly isAuthor: boolean; readonly people: () => Promise<People>; readonly inComment?: boolean },
): Promise<QuickResult | null> => {
  const { text, actions } = takeQuickActions(given ?? '', kind, inComment);
  if (actions.length === 0) return null;
  if (actions.length > MAX_ACTIONS) throw badRequest(`at most ${MAX_ACTIONS} quick actions are allowed`);
  const mayAll = can(ctx, project, kind === 'issue' ? 'admin_issue' : 'admin_merge_request');
  for (const { name } of actions) {
    if (isCommand(name)) continue;
    if (!mayAll && !OF_READERS.has(name) && !(isAuthor && OF_AUTHORS.has(name))) {
      throw forbidden(`the quick action /${name} is not allowed`);
    }
  }
  const changes: QuickChanges = {};
  const crowd = actions.some(({ name }) => name.includes('assign')) ? await people() : null;
  const lists = {
    assignees: new Set(crowd?.assignee_ids),
    reviewers: new Set(crowd?.reviewer_ids),
    added: new Set<string>(),
    removed: new Set<string>(),
  };
  let subscribed: boolean | undefined;
  const commands: { name: QuickCommand; argument: string }[] = [];
  for (const action of actions) {
    const { name, argument } = action;
    if (isCommand(name)) commands.push({ name, argument });
    else if (action.name === 'subscribe' || action.name === 'unsubscribe') subscribed = action.name === 'subscribe';
    else await apply(ctx, project, action, changes, lists);
  }
  if (lists.added.size > 0) changes.add_labels = [...lists.added];
  if (lists.removed.size > 0) changes.remove_labels = [...lists.removed];
  return { text, changes, subscribed, commands };
};

interface Lists {
  readonly assignees: Set<number>;
  readonly reviewers: Set<number>;
  readonly added: Set<string>;
  readonly removed: Set<string>;
}

const apply = async (
  ctx: Context,
  project: ProjectRow,
  { name, argument }: QuickAction,
  changes: QuickChanges,
  lists: Lists,
): Promise<void> => {
  switch (name) {
    case 'label':
      for (const title of namesIn(argument)) lists.added.add(title);
      return;
    case 'unlabel':
      if (argument === '') changes.labels = [];
      for (const title of namesIn(argument)) lists.removed.add(title);
      return;
    case 'relabel':
      changes.labels = namesIn(argument);
      return;
    case 'assign':
    case 'unassign':
      await people(ctx, name === 'assign', argument, lists.assignees);
      changes.assignee_ids = [...lists.assignees];
      return;
    case 'assign_reviewer':
    case 'unassign_reviewer':
      await people(ctx, name === 'assign_reviewer', argument, lists.reviewers);
      changes.reviewer_ids = [...lists.reviewers];
      return;
    case 'milestone':
      changes.milestone_id = await milestoneIdOf(ctx, project, namesIn(argument)[0] ?? '');
      return;
    case 'remove_milestone':
      changes.milestone_id = null;
      return;
    case 'close':
    case 'reopen':
      changes.state_event = name;
      return;
    case 'draft':
    case 'ready':
      changes.draft = name === 'draft';
      return;
    case 'title':
      changes.title = argument;
      return;
    case 'target_branch':
      changes.target_branch = argument;
      return;
    case 'lock':
    case 'unlock':
      changes.discussion_locked = name === 'lock';
      return;
    case 'estimate':
      changes.time_estimate = positive(readDuration(argument, 'duration'));
      return;
    case 'remove_estimate':
      changes.time_estimate = 0;
      return;
    case 'spend':
      changes.spent_time = spentTime(argument);
      return;
    case 'remove_time_spent':
      changes.spent_time = { seconds: 'reset' };
      return;
    case 'due':
      if (!DATE.test(argument)) throw badRequest('/due needs a date such as 2026-01-31');
      changes.due_date = argument;
      return;
    case 'remove_due_date':
      changes.due_date = null;
      return;
    case 'weight':
      if (!/^\d{1,9}$/.test(argument)) throw badRequest('/weight needs a number');
      changes.weight = Number(argument);
      return;
    case 'clear_weight':
      changes.weight = null;
      return;
    case 'confidential':
      changes.confidential = true;
  }
};

const DATE = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$/;

const positive = (seconds: number): number => {
  if (seconds < 0) throw badRequest('duration is invalid (allowed: zero or more)');
  return seconds;
};

/** `3h` or `3h 2026-01-31`. */
const spentTime = (argument: string): SpentTime => {
  const [, duration = '', date] = /^(.*?)(?:\s+(\d{4}-\d{2}-\d{2}))?$/.exec(argument) ?? [];
  if (date !== undefined && !DATE.test(date)) throw badRequest('/spend needs a date such as 2026-01-31');
  return { seconds: readDuration(duration, 'duration'), spent_at: date === undefined ? null : `${date}T00:00:00Z` };
};

/** Adds or removes people: `@ada @bob`, `me`. Without names, `unassign` removes all. Unknown names are left out. */
const people = async (ctx: Context, isAdded: boolean, argument: string, ids: Set<number>): Promise<void> => {
  const names = namesIn(argument).map((name) => name.replace(/^@/, '').replace(/,$/, '').toLowerCase());
  if (!isAdded && names.length === 0) ids.clear();
  const { userId } = ctx.actor;
  const { rows } = await sql<{ id: number }>`
    select id from users where lower(username) = any (${names}::text[])`.execute(ctx.db);
  const found = [...rows.map(({ id }) => id), ...(names.includes('me') && userId !== null ? [userId] : [])];
  for (const id of found) {
    if (isAdded) ids.add(id);
    else ids.delete(id);
  }
};

/** @throws DomainError `bad_request` if the project has no such milestone */
const milestoneIdOf = async (ctx: Context, project: ProjectRow, title: string): Promise<number> => {
  const { rows } = await sql<{ id: number }>`
    select id from milestones
    where title = ${title} and (project_id = ${project.id} or namespace_id = any (${project.namespace.traversal_ids}::bigint[]))
    order by state, id limit 1`.execute(ctx.db);
  const [found] = rows;
  if (!found) throw badRequest(`there is no milestone ${title}`);
  return found.id;
};
