import { sql } from 'kysely';
import { listMilestones } from '#domains/milestones/queries.ts';
import { userIdsByUsernames } from '#domains/planning/readers.ts';
import { MAX_TITLE } from '#domains/planning/texts.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { findProject, getProject } from '#domains/projects/queries.ts';
import { defaultDescription } from '#domains/repositories/description-templates.ts';
import { branchName, branchRef, type RefUpdate } from '#domains/repositories/model.ts';
import type { PushOptions } from '#domains/repositories/push-options.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, type ErrorCode, unprocessable } from '#platform/errors.ts';
import { readBoolean } from '#platform/values/read-boolean.ts';
import { createMergeRequest, type MergeRequestChanges, updateMergeRequest } from './commands.ts';
import { mergeMergeRequest } from './merging.ts';
import { mergeRequestWebUrl, withDraftMark } from './model.ts';
import { type MergeRequestRow, mergeRequestStatsByIds, mergeRequestsByIds } from './queries.ts';

// The push options `merge_request.*`, or `mr.*` (reference: merge-requests §1). The push has landed when they are
// carried out, so a refused option never loses it.

/** Branches of one push for which merge requests are opened or shown. */
const MAX_BRANCHES = 10;

interface Asked {
  readonly create: boolean;
  readonly target?: string;
  readonly target_project?: string;
  readonly title?: string;
  readonly description?: string;
  readonly milestone?: string;
  readonly draft?: boolean;
  readonly squash?: boolean;
  readonly remove_source_branch?: boolean;
  readonly auto_merge?: boolean;
  readonly label: readonly string[];
  readonly unlabel: readonly string[];
  readonly assign: readonly string[];
  readonly unassign: readonly string[];
}

/**
 * Opens or changes the merge requests that the options of a push ask for. Returns lines for the terminal of the person
 * who pushed: where the merge requests of the pushed branches are, and what was refused.
 */
export const handlePush = async (
  ctx: Context,
  project: ProjectRow,
  updates: readonly RefUpdate[],
  options: PushOptions,
): Promise<readonly string[]> => {
  const branches = updates.flatMap(({ ref, newOid }) => (newOid === null ? [] : (branchName(ref) ?? [])));
  if (branches.length === 0) return [];
  const given = options.merge_request;
  if (branches.length > MAX_BRANCHES) {
    return given ? [`Options for merge requests need a push of at most ${MAX_BRANCHES} branches.`] : [];
  }
  const open = await openFrom(ctx, project, branches);
  const views = (rows: readonly MergeRequestRow[]) =>
    rows.map((row) => `View merge request for ${row.source_branch}: ${mergeRequestWebUrl(ctx, row)}`);
  if (!given) return project.printing_merge_request_link_enabled ? views(open) : [];
  const { asked, messages } = readAsked(given);
  const lines = [...messages];
  for (const branch of branches) {
    const present = open.filter(({ source_branch }) => source_branch === branch);
    try {
      const row = await openOrChange(ctx, project, branch, present, asked);
      lines.push(...views([row]));
      if (asked.auto_merge) lines.push(await mergeAutomatically(ctx, row));
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      lines.push(`The push options for ${branch} were refused: ${reasonOf(error)}`, ...views(present));
    }
  }
  return lines;
};

/** Without the status that REST answers begin with. */
const reasonOf = ({ message }: DomainError): string => message.replace(/^\d{3} (?:Bad request - |Forbidden - )?/, '');

/** Returns the open merge requests from these branches that the caller can see, oldest first. */
const openFrom = async (
  ctx: Context,
  project: ProjectRow,
  branches: readonly string[],
): Promise<readonly MergeRequestRow[]> => {
  const rows = await ctx.db
    .selectFrom('merge_requests')
    .select('id')
    .where('source_project_id', '=', project.id)
    .where(sql<boolean>`source_branch = any (${branches}::text[])`)
    .where('state', '=', 'opened')
    .orderBy('id')
    .execute();
  if (rows.length === 0) return [];
  const found = await mergeRequestsByIds(
    ctx,
    rows.map(({ id }) => id),
  );
  return rows.flatMap(({ id }) => found.get(id) ?? []);
};

const TEXTS = ['target', 'target_project', 'title', 'description', 'milestone'] as const;
const FLAGS = ['create', 'draft', 'squash', 'remove_source_branch', 'auto_merge'] as const;
const FORMER_NAMES: Readonly<Record<string, string>> = { merge_when_pipeline_succeeds: 'auto_merge' };
const LISTS = ['label', 'unlabel', 'assign', 'unassign'] as const;
const isOneOf = <T extends string>(names: readonly T[], name: string): name is T => names.some((each) => each === name);

/** Reads the options of the namespace. Adds a message for each that is unknown or lacks its value. */
const readAsked = (given: NonNullable<PushOptions[string]>): { asked: Asked; messages: readonly string[] } => {
  const messages: string[] = [];
  const texts: Partial<Record<(typeof TEXTS)[number], string>> = {};
  const flags: Partial<Record<(typeof FLAGS)[number], boolean>> = {};
  const lists: Record<(typeof LISTS)[number], readonly string[]> = { label: [], unlabel: [], assign: [], unassign: [] };
  for (const [sent, value] of Object.entries(given)) {
    const name = FORMER_NAMES[sent] ?? sent;
    if (isOneOf(LISTS, name) && typeof value === 'object') {
      lists[name] = Object.keys(value).filter((each) => each.trim() !== '');
    } else if (isOneOf(FLAGS, name)) {
      const flag = typeof value === 'string' ? readBoolean(value) : true;
      if (flag === null) messages.push(`The push option "merge_request.${name}" is true or false. It was ignored.`);
      else flags[name] = flag;
    } else if (isOneOf(TEXTS, name)) {
      if (typeof value === 'string') texts[name] = value;
      else messages.push(`The push option "merge_request.${name}" needs a value. It was ignored.`);
    } else {
      messages.push(`The push option "merge_request.${name}" is unknown and was ignored.`);
    }
  }
  return { asked: { create: false, ...texts, ...flags, ...lists }, messages };
};

const openOrChange = async (
  ctx: Context,
  source: ProjectRow,
  branch: string,
  present: readonly MergeRequestRow[],
  asked: Asked,
): Promise<MergeRequestRow> => {
  const named = asked.target_project === undefined ? null : await getTarget(ctx, asked.target_project);
  const known =
    present.find((row) => row.target_branch === asked.target && (named === null || row.project_id === named.id)) ??
    present.find((row) => named === null || row.project_id === named.id);
  if (known) {
    const target = await findProject(ctx, { id: known.project_id });
    if (target) return change(ctx, target, known, asked);
  }
  if (!asked.create) throw unprocessable('merge_request.create is needed to open a merge request');
  return create(ctx, source, named ?? (await defaultTarget(ctx, source)), branch, asked);
};

const getTarget = async (ctx: Context, path: string): Promise<ProjectRow> => {
  const project = await findProject(ctx, { path });
  if (!project) throw unprocessable(`The project ${path} does not exist`);
  return project;
};

/** Forks propose to the project that they come from, unless they are set to propose to themselves. */
const defaultTarget = async (ctx: Context, source: ProjectRow): Promise<ProjectRow> => {
  if (source.forked_from_id === null || source.mr_default_target_self) return source;
  const parent = await findProject(ctx, { id: source.forked_from_id });
  return parent && parent.merge_requests_access_level !== 'disabled' ? parent : source;
};

const create = async (
  ctx: Context,
  source: ProjectRow,
  target: ProjectRow,
  branch: string,
  asked: Asked,
): Promise<MergeRequestRow> => {
  const target_branch = asked.target ?? target.default_branch ?? '';
  await requireBranch(ctx, target, target_branch);
  const texts = await textsOf(ctx, source, target, branch, target_branch);
  const title = asked.title ?? texts.title;
  return createMergeRequest(ctx, source, {
    source_branch: branch,
    target_branch,
    target_project_id: target.id,
    title: asked.draft === undefined ? title : withDraftMark(title, asked.draft),
    description:
      asked.description === undefined
        ? ((await defaultDescription(ctx, target, 'merge_requests')) ?? texts.description)
        : linesOf(asked.description),
    remove_source_branch: asked.remove_source_branch,
    squash: asked.squash,
    labels: asked.label.filter((each) => !asked.unlabel.includes(each)),
    assignee_ids: await idsOf(ctx, asked.assign),
    milestone_id: await milestoneOf(ctx, target, asked.milestone),
  });
};

const change = async (
  ctx: Context,
  target: ProjectRow,
  row: MergeRequestRow,
  asked: Asked,
): Promise<MergeRequestRow> => {
  if (asked.target !== undefined && asked.target !== row.target_branch) await requireBranch(ctx, target, asked.target);
  const changes: MergeRequestChanges = {
    target_branch: asked.target,
    title:
      asked.title === undefined || asked.draft === undefined ? asked.title : withDraftMark(asked.title, asked.draft),
    draft: asked.title === undefined ? asked.draft : undefined,
    description: asked.description === undefined ? undefined : linesOf(asked.description),
    remove_source_branch: asked.remove_source_branch,
    squash: asked.squash,
    add_labels: asked.label.length > 0 ? asked.label : undefined,
    remove_labels: asked.unlabel.length > 0 ? asked.unlabel : undefined,
    assignee_ids: await assigneesAfter(ctx, row, asked),
    milestone_id: await milestoneOf(ctx, target, asked.milestone),
  };
  return Object.values(changes).every((each) => each === undefined)
    ? row
    : updateMergeRequest(ctx, target, row, changes);
};

/** Returns what came of it. The merge request stays open if it is refused. */
const mergeAutomatically = async (ctx: Context, row: MergeRequestRow): Promise<string> => {
  const named = `The merge request !${row.iid}`;
  try {
    const target = await getProject(ctx, { id: row.project_id });
    const { state } = await mergeMergeRequest(ctx, target, row, { auto_merge: true });
    return state === 'merged' ? `${named} is merged.` : `${named} is merged as soon as nothing is in the way.`;
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    const reasons: Partial<Record<ErrorCode, string>> = {
      not_allowed: 'there is nothing to wait for',
      unauthenticated: 'you may neither push nor merge to its target branch',
    };
    return `${named} is not merged automatically: ${reasons[error.code] ?? reasonOf(error)}`;
  }
};

const requireBranch = async (ctx: Context, project: ProjectRow, branch: string): Promise<void> => {
  const tip = await ctx.services.git.resolve(project.disk_path, branchRef(branch));
  if (tip === null) throw unprocessable(`The target branch ${branch} does not exist in ${project.full_path}`);
};

/** A push option cannot hold line breaks, so clients write `\n`. */
const linesOf = (text: string): string => text.replaceAll('\\n', '\n');

/** Returns the texts of the only commit. The name of the branch becomes the title if there are more. */
const textsOf = async (
  ctx: Context,
  source: ProjectRow,
  target: ProjectRow,
  branch: string,
  targetBranch: string,
): Promise<{ title: string; description?: string }> => {
  const { git } = ctx.services;
  const [from, start] = await Promise.all([
    git.resolve(source.disk_path, branchRef(branch)),
    git.resolve(target.disk_path, branchRef(targetBranch)),
  ]);
  // A fork may lack the newest commits of its target.
  const isKnown = start !== null && (await git.readCommits(source.disk_path, [start])).length > 0;
  const commits =
    from !== null && isKnown ? await git.listCommits(source.disk_path, { from, not: [start], limit: 2 }) : [];
  const [only] = commits;
  if (only && commits.length === 1) {
    const [title = '', ...body] = only.message.trim().split('\n');
    if (title.trim() !== '') return { title: title.slice(0, MAX_TITLE), description: body.join('\n').trim() };
  }
  const words = branch.replaceAll(/[-_/\s]+/g, ' ').trim();
  return { title: (words.charAt(0).toUpperCase() + words.slice(1)).slice(0, MAX_TITLE) || branch };
};

const assigneesAfter = async (
  ctx: Context,
  row: MergeRequestRow,
  { assign, unassign }: Asked,
): Promise<readonly number[] | undefined> => {
  if (assign.length === 0 && unassign.length === 0) return undefined;
  const stats = (await mergeRequestStatsByIds(ctx, [row.id])).get(row.id);
  const [added, removed] = [await idsOf(ctx, assign), await idsOf(ctx, unassign)];
  return [...(stats?.assignee_ids ?? []), ...added].filter((id) => !removed.includes(id));
};

/** Users are named by username, with or without `@`, or by id. */
const idsOf = async (ctx: Context, people: readonly string[]): Promise<readonly number[]> => {
  const isId = (each: string) => /^\d{1,15}$/.test(each);
  const names = people.filter((each) => !isId(each)).map((each) => each.replace(/^@/, ''));
  const byName = names.length === 0 ? [] : await userIdsByUsernames(ctx, names, 'assignee_usernames');
  return [...people.filter(isId).map(Number), ...byName];
};

const milestoneOf = async (
  ctx: Context,
  project: ProjectRow,
  title: string | undefined,
): Promise<number | undefined> => {
  if (title === undefined) return undefined;
  const list = listMilestones(ctx, { kind: 'project', project }, { title, include_ancestors: true });
  const [milestone] = await list.rows({ limit: 1 });
  if (!milestone) throw unprocessable(`The milestone ${title} does not exist`);
  return milestone.id;
};
