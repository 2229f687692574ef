import { namespaceWebUrl } from '#domains/groups/model.ts';
import { groupsByPaths, type NamespaceRow, namespacesByIds } from '#domains/groups/queries.ts';
import { issueWebUrl } from '#domains/issues/model.ts';
import { issuesByNumbers } from '#domains/issues/references.ts';
import { textColor } from '#domains/labels/colors.ts';
import { labelsByNames } from '#domains/labels/queries.ts';
import type { Resolved, Wanted } from '#domains/markdown/html.ts';
import type { Reference, Referent } from '#domains/markdown/model.ts';
import { mergeRequestWebUrl } from '#domains/merge-requests/model.ts';
import { mergeRequestsByNumbers } from '#domains/merge-requests/references.ts';
import { milestoneWebUrl } from '#domains/milestones/model.ts';
import { milestonesByNames } from '#domains/milestones/queries.ts';
import { projectWebUrl } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { movedProjectIds, type ProjectRow, projectsByIds, projectsByPaths, ROW } from '#domains/projects/queries.ts';
import { commitsByShas } from '#domains/repositories/abbreviated.ts';
import { commitWebUrl } from '#domains/repositories/model.ts';
import { userSummariesByUsernames } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';

type Of<K extends Reference['kind']> = Extract<Reference, { kind: K }>;

/** A reference in a project or group that the caller can see. */
interface Placed<R extends Reference = Reference> {
  /** The index among all references. */
  readonly index: number;
  readonly reference: R;
  readonly project: ProjectRow | null;
  readonly group: NamespaceRow | null;
  /** The reference names its project, and it is not the project of the text. */
  readonly isForeign: boolean;
}

/** Implements the port `resolveReferences` of `markdown`. The domain of each thing decides who can see it. */
export const resolve = async (ctx: Context, wanted: readonly Wanted[], homes: readonly number[]): Promise<Resolved> => {
  const places = await placesOf(ctx, wanted, homes);
  const placed = wanted.map((each, index) => place(each, index, places));
  const referents: (Referent | null)[] = wanted.map(() => null);
  const all = await Promise.all([
    issues(ctx, placed),
    mergeRequests(ctx, placed),
    people(ctx, placed),
    labels(ctx, placed),
    milestones(ctx, placed),
    commits(ctx, placed),
  ]);
  for (const [index, referent] of all.flat()) referents[index] = referent;
  return { referents, paths: new Map([...places.projects].map(([id, { full_path }]) => [id, full_path])) };
};

type Found = (readonly [index: number, referent: Referent])[];

interface Places {
  readonly projects: ReadonlyMap<number, ProjectRow>;
  readonly byPath: ReadonlyMap<string, ProjectRow>;
  readonly groups: ReadonlyMap<number, NamespaceRow>;
}

/** Reads the projects and groups that the references start from, as far as the caller can see them. */
const placesOf = async (ctx: Context, wanted: readonly Wanted[], homes: readonly number[]): Promise<Places> => {
  const ids = new Set(homes);
  const groupIds = new Set<number>();
  const paths = new Set<string>();
  for (const { home, reference } of wanted) {
    const path = pathOf(reference);
    if (path !== null) paths.add(path);
    if (home?.kind === 'project' && reference.kind !== 'user') ids.add(home.id);
    if (home?.kind === 'group' && path === null && (reference.kind === 'label' || reference.kind === 'milestone'))
      groupIds.add(home.id);
  }
  const [projects, named, groups] = await Promise.all([
    ids.size === 0 ? new Map<number, ProjectRow>() : projectsByIds(ctx, [...ids], ROW),
    projectsByPaths(ctx, [...paths]),
    namespacesByIds(ctx, [...groupIds]),
  ]);
  const byPath = new Map(named.map((each) => [each.full_path.toLowerCase(), each]));
  await addMoved(ctx, byPath, paths);
  return { projects, byPath, groups };
};

/** Adds the projects that had one of the other paths before: texts keep the path of the day on which they were written. */
const addMoved = async (ctx: Context, byPath: Map<string, ProjectRow>, paths: ReadonlySet<string>): Promise<void> => {
  const moved = await movedProjectIds(
    ctx,
    [...paths].filter((path) => !byPath.has(path)),
  );
  if (moved.size === 0) return;
  const found = await projectsByIds(ctx, [...new Set(moved.values())], ROW);
  for (const [path, id] of moved) {
    const project = found.get(id);
    if (project) byPath.set(path, project);
  }
};

const pathOf = (reference: Reference): string | null =>
  reference.kind === 'user' ? null : (reference.project?.toLowerCase() ?? null);

const place = ({ home, reference }: Wanted, index: number, { projects, byPath, groups }: Places): Placed => {
  const path = pathOf(reference);
  const own = home?.kind === 'project' ? (projects.get(home.id) ?? null) : null;
  const project = path === null ? own : (byPath.get(path) ?? null);
  const group = home?.kind === 'group' && path === null ? (groups.get(home.id) ?? null) : null;
  return { index, reference, project, group, isForeign: project?.id !== own?.id };
};

const ofKind = <K extends Reference['kind']>(placed: readonly Placed[], kind: K): Placed<Of<K>>[] =>
  placed.flatMap((each) => (isOf(each, kind) ? [each] : []));

const isOf = <K extends Reference['kind']>(placed: Placed, kind: K): placed is Placed<Of<K>> =>
  placed.reference.kind === kind;

/** Those in a project that the caller can see. */
const inProjects = <R extends Reference>(placed: readonly Placed<R>[]) =>
  placed.flatMap((each) => (each.project ? [{ ...each, project: each.project }] : []));

const numbersOf = (
  asked: readonly { readonly project: ProjectRow; readonly reference: Of<'issue' | 'merge_request'> }[],
) => asked.map(({ project, reference }) => ({ project_id: project.id, iid: reference.iid }));

const issues = async (ctx: Context, placed: readonly Placed[]): Promise<Found> => {
  const asked = inProjects(ofKind(placed, 'issue'));
  const rows = await issuesByNumbers(ctx, numbersOf(asked));
  const byNumber = new Map(rows.map((row) => [`${row.project_id}#${row.iid}`, row]));
  return asked.flatMap(({ index, project, isForeign, reference: { iid, note } }): Found => {
    const issue = byNumber.get(`${project.id}#${iid}`);
    if (!issue) return [];
    const data = { project: project.id, issue: issue.id, iid, 'project-path': project.full_path };
    const href = issueWebUrl(ctx, project, issue);
    const text = `${isForeign ? project.full_path : ''}#${iid}`;
    return [[index, { ...withNote(href, text, note), title: issue.title, className: 'gfm-issue', data }]];
  });
};

const mergeRequests = async (ctx: Context, placed: readonly Placed[]): Promise<Found> => {
  const asked = inProjects(ofKind(placed, 'merge_request'));
  const rows = await mergeRequestsByNumbers(ctx, numbersOf(asked));
  const byNumber = new Map(rows.map((row) => [`${row.project_id}!${row.iid}`, row]));
  return asked.flatMap(({ index, project, isForeign, reference: { iid, note } }): Found => {
    const row = byNumber.get(`${project.id}!${iid}`);
    if (!row) return [];
    const data = { project: project.id, 'merge-request': row.id, iid, 'project-path': project.full_path };
    const href = mergeRequestWebUrl(ctx, row);
    const text = `${isForeign ? project.full_path : ''}!${iid}`;
    return [[index, { ...withNote(href, text, note), title: row.title, className: 'gfm-merge_request', data }]];
  });
};

const withNote = (href: string, text: string, note: number | undefined) =>
  note === undefined ? { href, text } : { href: `${href}#note_${note}`, text: `${text} (comment ${note})` };

/** Users, and groups that the caller can see. */
const people = async (ctx: Context, placed: readonly Placed[]): Promise<Found> => {
  const asked = ofKind(placed, 'user');
  const names = [...new Set(asked.map(({ reference }) => reference.name.toLowerCase()))];
  const [users, groups] = await Promise.all([
    userSummariesByUsernames(
      ctx,
      names.filter((name) => !name.includes('/')),
    ),
    groupsByPaths(ctx, names),
  ]);
  const byName = new Map(users.map((user) => [user.username.toLowerCase(), user]));
  // A group can be closed to mentions.
  const open = groups.filter(({ mentions_disabled }) => !mentions_disabled);
  const byPath = new Map(open.map((group) => [group.full_path.toLowerCase(), group]));
  return asked.flatMap(({ index, reference }): Found => {
    const name = reference.name.toLowerCase();
    const [user, group] = [byName.get(name), byPath.get(name)];
    if (user) {
      const { id, username } = user;
      const href = webUrl(ctx, username);
      return [[index, { href, text: `@${username}`, title: user.name, className: MEMBER, data: { user: id } }]];
    }
    if (!group) return [];
    const href = namespaceWebUrl(ctx, group);
    const text = `@${group.full_path}`;
    return [[index, { href, text, title: group.full_name, className: MEMBER, data: { group: group.id } }]];
  });
};

const MEMBER = 'gfm-project_member';

interface NamedIn {
  readonly index: number;
  readonly name: string;
  /** Null in a group. */
  readonly project: ProjectRow | null;
  readonly project_id: number | null;
  readonly namespace_id: number;
  readonly url: string;
}

/** Labels and milestones belong to a project, a group above it, or to the group of the text. */
const named = (
  ctx: Context,
  placed: readonly Placed<Of<'label' | 'milestone'>>[],
  ability: 'read_label' | 'read_milestone',
): NamedIn[] =>
  placed.flatMap(({ index, reference: { name }, project, group }): NamedIn[] => {
    if (project && can(ctx, project, ability)) {
      const url = projectWebUrl(ctx, project);
      return [{ index, name, project, project_id: project.id, namespace_id: project.namespace.id, url }];
    }
    if (!group) return [];
    return [{ index, name, project, project_id: null, namespace_id: group.id, url: namespaceWebUrl(ctx, group) }];
  });

const labels = async (ctx: Context, placed: readonly Placed[]): Promise<Found> => {
  const asked = named(ctx, ofKind(placed, 'label'), 'read_label');
  const rows = await labelsByNames(ctx, asked);
  return asked.flatMap(({ index, project, url }, at): Found => {
    const label = rows[at];
    if (!label) return [];
    const { color, title, description } = label;
    const referent = {
      href: `${url}/-/issues?label_name=${encodeURIComponent(title)}`,
      text: title,
      title: description ?? '',
      className: 'gfm-label',
      data: { ...(project ? { project: project.id } : {}), label: label.id },
      colors: { background: color, text: textColor(color) },
    };
    return [[index, referent]];
  });
};

const milestones = async (ctx: Context, placed: readonly Placed[]): Promise<Found> => {
  const asked = named(ctx, ofKind(placed, 'milestone'), 'read_milestone');
  const rows = await milestonesByNames(ctx, asked);
  return asked.flatMap(({ index, project }, at): Found => {
    const milestone = rows[at];
    if (!milestone) return [];
    const data = { ...(project ? { project: project.id } : {}), milestone: milestone.id };
    const text = `%${milestone.title}`;
    return [[index, { href: milestoneWebUrl(ctx, milestone), text, title: '', className: 'gfm-milestone', data }]];
  });
};

const commits = async (ctx: Context, placed: readonly Placed[]): Promise<Found> => {
  const asked = inProjects(ofKind(placed, 'commit'));
  const found = await commitsByShas(
    ctx,
    asked.map(({ project, reference: { sha } }) => ({ project, sha })),
  );
  return asked.flatMap(({ index, project, isForeign }, at): Found => {
    const commit = found[at];
    if (!commit) return [];
    const href = commitWebUrl(ctx, project, commit.id);
    const text = `${isForeign ? `${project.full_path}@` : ''}${commit.id.slice(0, 8)}`;
    const data = { project: project.id, commit: commit.id };
    return [[index, { href, text, title: commit.title, className: 'gfm-commit', data }]];
  });
};
