import { GroupRef } from '#domains/groups/graphql.ts';
import { loadHtml } from '#domains/markdown/graphql.ts';
import { type ContainerKind, getContainerByPath } from '#domains/planning/container.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { textColor } from './colors.ts';
import { createLabel, deleteLabel, updateLabel } from './commands.ts';
import { labelProse } from './model.ts';
import { getLabelById, type LabelRow, labelsByIssueIds, labelsByMergeRequestIds, listLabelsBelow } from './queries.ts';

/** A label. Issues and merge requests list theirs with `LabelConnection`. */
export const LabelRef = builder.objectRef<LabelRow>('Label').implement({
  description: 'A label of a project, or of a group for all projects below it.',
  fields: (t) => ({
    id: t.id({
      nullable: false,
      resolve: (label) => gid(label.project_id === null ? 'GroupLabel' : 'ProjectLabel', label.id),
    }),
    title: t.exposeString('title', { nullable: false }),
    description: t.exposeString('description'),
    descriptionHtml: t.string({ resolve: (label, _args, ctx) => loadHtml(ctx, labelProse(label)) }),
    color: t.exposeString('color', { nullable: false }),
    textColor: t.string({ nullable: false, resolve: (label) => textColor(label.color) }),
    priority: t.exposeInt('priority'),
    lockOnMerge: t.exposeBoolean('lock_on_merge', { nullable: false }),
    archived: t.exposeBoolean('archived', { nullable: false }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
  }),
});
export const LabelConnection = builder.connectionObject(
  { type: LabelRef, name: 'LabelConnection' },
  { name: 'LabelEdge' },
);

/** Loads the labels of an issue by title. Batched. */
export const loadIssueLabels: (ctx: Context, issueId: number) => Promise<LabelRow[] | null> = loader(labelsByIssueIds);
/** Loads the labels of a merge request by title. Batched. */
export const loadMergeRequestLabels: (ctx: Context, mergeRequestId: number) => Promise<LabelRow[] | null> =
  loader(labelsByMergeRequestIds);

interface LabelArguments extends ConnectionArguments {
  readonly searchTerm?: string | null | undefined;
  readonly title?: string | null | undefined;
  readonly includeAncestorGroups?: boolean | null | undefined;
  readonly includeDescendantGroups?: boolean | null | undefined;
  readonly archived?: boolean | null | undefined;
}

const labelsBelow = (kind: ContainerKind) =>
  batchedConnection((ctx, args: LabelArguments) =>
    listLabelsBelow(ctx, kind, {
      search: args.searchTerm,
      title: args.title,
      include_ancestor_groups: args.includeAncestorGroups,
      include_descendant_groups: args.includeDescendantGroups,
      archived: args.archived,
    }),
  );
const projectLabels = labelsBelow('project');
const groupLabels = labelsBelow('group');

projectField('labels', JUDGED, (t) =>
  t.connection(
    {
      type: LabelRef,
      args: {
        searchTerm: t.arg.string(),
        title: t.arg.string(),
        includeAncestorGroups: t.arg.boolean({ defaultValue: false }),
        archived: t.arg.boolean(),
      },
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_label') ? projectLabels(project.id, args, ctx, info) : null,
    },
    LabelConnection,
  ),
);

builder.objectField(GroupRef, 'labels', (t) =>
  t.connection(
    {
      type: LabelRef,
      args: {
        searchTerm: t.arg.string(),
        title: t.arg.string(),
        includeAncestorGroups: t.arg.boolean({ defaultValue: false }),
        includeDescendantGroups: t.arg.boolean({ defaultValue: false }),
        archived: t.arg.boolean(),
      },
      resolve: (group, args, ctx, info) => groupLabels(group.id, args, ctx, info),
    },
    LabelConnection,
  ),
);

/** Keys are `<project id>:<title>`. Runs one statement per title, regardless of the number of projects. */
const loadByTitle = loader(async (ctx: Context, keys: readonly string[]): Promise<Map<string, LabelRow>> => {
  const found = new Map<string, LabelRow>();
  const byTitle = Map.groupBy(keys, (key) => key.slice(key.indexOf(':') + 1));
  await Promise.all(
    [...byTitle].map(async ([title, group]) => {
      const projectIds = group.map((key) => Number.parseInt(key, 10));
      const list = listLabelsBelow(ctx, 'project', { title, include_ancestor_groups: true });
      for (const [projectId, [label]] of await list.rows(projectIds, { limit: 1 })) {
        if (label) found.set(`${projectId}:${title}`, label);
      }
    }),
  );
  return found;
});

projectField('label', JUDGED, (t) =>
  t.field({
    type: LabelRef,
    args: { title: t.arg.string({ required: true }) },
    resolve: (project, { title }, ctx) =>
      can(ctx, project, 'read_label') ? loadByTitle(ctx, `${project.id}:${title}`) : null,
  }),
);

mutationField('labelCreate', {
  description: 'Creates a label of a project or group.',
  input: (t) => ({
    projectPath: t.id({ description: 'One of `projectPath` and `groupPath` is needed.' }),
    groupPath: t.id(),
    title: t.string({ required: true }),
    color: t.string({ description: '`#RRGGBB` or a CSS colour name.' }),
    description: t.string(),
    priority: t.int(),
  }),
  payload: { label: LabelRef },
  run: async (ctx, { projectPath, groupPath, ...input }) => ({
    label: await createLabel(ctx, await getContainerByPath(ctx, projectPath, groupPath), {
      ...input,
      color: input.color ?? '#6699cc',
    }),
  }),
});

mutationField('labelUpdate', {
  description: 'Changes a label.',
  input: (t) => ({
    id: t.field({ type: 'LabelID', required: true }),
    title: t.string(),
    color: t.string(),
    description: t.string(),
    priority: t.int(),
    archived: t.boolean(),
  }),
  payload: { label: LabelRef },
  run: async (ctx, { id, ...input }) => {
    const { container, label } = await getLabelById(ctx, id);
    return {
      label: await updateLabel(ctx, container, label, {
        ...input,
        title: input.title ?? undefined,
        color: input.color ?? undefined,
        archived: input.archived ?? undefined,
      }),
    };
  },
});

mutationField('labelDelete', {
  description: 'Deletes a label.',
  input: (t) => ({ id: t.field({ type: 'LabelID', required: true }) }),
  payload: { label: LabelRef },
  run: async (ctx, { id }) => {
    const { container, label } = await getLabelById(ctx, id);
    await deleteLabel(ctx, container, label);
    return { label };
  },
});
