import { GroupRef, loadGroup } from '#domains/groups/graphql.ts';
import { type ContainerKind, getContainerByPath } from '#domains/planning/container.ts';
import { JUDGED, loadProject, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { orNull } from '#graphql/errors.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { createMilestone, deleteMilestone, type MilestoneDetails, updateMilestone } from './commands.ts';
import {
  isExpired,
  isUpcoming,
  MILESTONE_STATE_EVENTS,
  MILESTONE_STATES,
  type MilestoneState,
  milestoneWebUrl,
} from './model.ts';
import {
  getMilestoneById,
  listMilestonesBelow,
  type MilestoneRow,
  type MilestoneStats,
  milestoneStatsByIds,
  milestonesByIds,
} from './queries.ts';

/** Loads the milestone with this id, batched. Only for ids found on something that the caller can see. */
export const loadMilestone: (ctx: Context, id: number) => Promise<MilestoneRow | null> = loader(milestonesByIds);
const loadStats = loader(milestoneStatsByIds);

const MilestoneStateEnum = builder.enumType('MilestoneStateEnum', { values: MILESTONE_STATES });

const MilestoneStateEvent = builder.enumType('MilestoneStateEvent', { values: upperCase(MILESTONE_STATE_EVENTS) });

const MilestoneStatsRef = builder.objectRef<MilestoneStats>('MilestoneStats').implement({
  fields: (t) => ({
    totalIssuesCount: t.exposeInt('total_issues_count', { nullable: false }),
    closedIssuesCount: t.exposeInt('closed_issues_count', { nullable: false }),
  }),
});

/** A milestone. Downstream domains add fields with `builder.objectField(MilestoneRef, ...)`. */
export const MilestoneRef = builder.objectRef<MilestoneRow>('Milestone').implement({
  description: 'A milestone of a project, or of a group for all projects below it.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (milestone) => gid('Milestone', milestone.id) }),
    iid: t.id({ nullable: false, resolve: (milestone) => String(milestone.iid) }),
    title: t.exposeString('title', { nullable: false }),
    description: t.exposeString('description'),
    state: t.field({ type: MilestoneStateEnum, nullable: false, resolve: stateOf }),
    dueDate: t.field({ type: 'Time', resolve: ({ due_date }) => midnight(due_date) }),
    startDate: t.field({ type: 'Time', resolve: ({ start_date }) => midnight(start_date) }),
    expired: t.boolean({ nullable: false, resolve: (milestone, _args, ctx) => isExpired(ctx, milestone) }),
    upcoming: t.boolean({ nullable: false, resolve: (milestone, _args, ctx) => isUpcoming(ctx, milestone) }),
    webPath: t.string({
      nullable: false,
      resolve: (milestone, _args, ctx) => new URL(milestoneWebUrl(ctx, milestone)).pathname,
    }),
    webUrl: t.string({ nullable: false, resolve: (milestone, _args, ctx) => milestoneWebUrl(ctx, milestone) }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
    project: t.field({
      type: ProjectRef,
      resolve: ({ project_id }, _args, ctx) => (project_id === null ? null : loadProject(ctx, project_id)),
    }),
    group: t.field({
      type: GroupRef,
      resolve: ({ namespace_id }, _args, ctx) => (namespace_id === null ? null : loadGroup(ctx, namespace_id)),
    }),
    projectMilestone: t.boolean({ nullable: false, resolve: ({ project_id }) => project_id !== null }),
    groupMilestone: t.boolean({ nullable: false, resolve: ({ namespace_id }) => namespace_id !== null }),
    subgroupMilestone: t.boolean({
      nullable: false,
      resolve: ({ namespace_id, owner_path }) => namespace_id !== null && owner_path.includes('/'),
    }),
    stats: t.field({
      type: MilestoneStatsRef,
      resolve: async ({ id }, _args, ctx) =>
        (await loadStats(ctx, id)) ?? { id, total_issues_count: 0, closed_issues_count: 0 },
    }),
  }),
});
const MilestoneConnection = builder.connectionObject(
  { type: MilestoneRef, name: 'MilestoneConnection' },
  { name: 'MilestoneEdge' },
);

const stateOf = ({ state }: MilestoneRow): MilestoneState => (state === 'closed' ? 'closed' : 'active');

/** Clients expect these dates as timestamps. */
const midnight = (day: string | null): string | null => day && `${day}T00:00:00Z`;

interface MilestoneArguments extends ConnectionArguments {
  readonly ids?: readonly number[] | null | undefined;
  readonly iids?: readonly string[] | null | undefined;
  readonly state?: MilestoneState | null | undefined;
  readonly title?: string | null | undefined;
  readonly searchTitle?: string | null | undefined;
  readonly includeAncestors?: boolean | null | undefined;
  readonly includeDescendants?: boolean | null | undefined;
}

const milestonesBelow = (kind: ContainerKind) =>
  batchedConnection((ctx, args: MilestoneArguments) =>
    listMilestonesBelow(ctx, kind, {
      ids: args.ids,
      iids: args.iids?.map(Number).filter(Number.isSafeInteger),
      state: args.state,
      title: args.title,
      search_title: args.searchTitle,
      include_ancestors: args.includeAncestors,
      include_descendants: args.includeDescendants,
    }),
  );
const projectMilestones = milestonesBelow('project');
const groupMilestones = milestonesBelow('group');

projectField('milestones', JUDGED, (t) =>
  t.connection(
    {
      type: MilestoneRef,
      args: {
        ids: t.arg({ type: ['MilestoneID'] }),
        iids: t.arg.stringList(),
        state: t.arg({ type: MilestoneStateEnum }),
        title: t.arg.string(),
        searchTitle: t.arg.string(),
        includeAncestors: t.arg.boolean({ defaultValue: false }),
      },
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_milestone') ? projectMilestones(project.id, args, ctx, info) : null,
    },
    MilestoneConnection,
  ),
);

builder.objectField(GroupRef, 'milestones', (t) =>
  t.connection(
    {
      type: MilestoneRef,
      args: {
        ids: t.arg({ type: ['MilestoneID'] }),
        iids: t.arg.stringList(),
        state: t.arg({ type: MilestoneStateEnum }),
        title: t.arg.string(),
        searchTitle: t.arg.string(),
        includeAncestors: t.arg.boolean({ defaultValue: false }),
        includeDescendants: t.arg.boolean({ defaultValue: false }),
      },
      resolve: (group, args, ctx, info) => groupMilestones(group.id, args, ctx, info),
    },
    MilestoneConnection,
  ),
);

builder.queryField('milestone', (t) =>
  t.field({
    type: MilestoneRef,
    args: { id: t.arg({ type: 'MilestoneID', required: true }) },
    resolve: (_root, { id }, ctx) => orNull(getMilestoneById(ctx, id).then(({ milestone }) => milestone)),
  }),
);

const detailInputs = (t: InputFields) => ({
  description: t.string(),
  dueDate: t.field({ type: 'Date' }),
  startDate: t.field({ type: 'Date' }),
});

interface DetailInputs {
  readonly description?: string | null | undefined;
  readonly dueDate?: string | null | undefined;
  readonly startDate?: string | null | undefined;
}

const detailsOf = ({ description, dueDate, startDate }: DetailInputs): MilestoneDetails => ({
  description,
  due_date: dueDate,
  start_date: startDate,
});

mutationField('milestoneCreate', {
  description: 'Creates a milestone of a project or group.',
  input: (t) => ({
    projectPath: t.id({ description: 'One of `projectPath` and `groupPath` is needed.' }),
    groupPath: t.id(),
    title: t.string({ required: true }),
    ...detailInputs(t),
  }),
  payload: { milestone: MilestoneRef },
  run: async (ctx, { projectPath, groupPath, title, ...details }) => {
    const container = await getContainerByPath(ctx, projectPath, groupPath);
    return {
      milestone: await createMilestone(ctx, container, { title, ...detailsOf(details) }),
    };
  },
});

mutationField('milestoneUpdate', {
  description: 'Changes, closes or activates a milestone.',
  input: (t) => ({
    id: t.field({ type: 'MilestoneID', required: true }),
    title: t.string(),
    ...detailInputs(t),
    stateEvent: t.field({ type: MilestoneStateEvent }),
  }),
  payload: { milestone: MilestoneRef },
  run: async (ctx, { id, title, stateEvent, ...details }) => {
    const { container, milestone } = await getMilestoneById(ctx, id);
    return {
      milestone: await updateMilestone(ctx, container, milestone, {
        title: title ?? undefined,
        ...detailsOf(details),
        state_event: stateEvent ?? undefined,
      }),
    };
  },
});

mutationField('milestoneDelete', {
  description: 'Deletes a milestone.',
  input: (t) => ({ id: t.field({ type: 'MilestoneID', required: true }) }),
  payload: { milestone: MilestoneRef },
  run: async (ctx, { id }) => {
    const { container, milestone } = await getMilestoneById(ctx, id);
    await deleteMilestone(ctx, container, milestone);
    return { milestone };
  },
});
