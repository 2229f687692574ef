import { namespaceWebUrl } from '#domains/groups/model.ts';
import { projectWebUrl } from '#domains/projects/model.ts';
import { type Clock, today } from '#platform/clock.ts';
import type { Context } from '#platform/context.ts';
import type { MilestoneRow } from './queries.ts';

export const MILESTONE_STATES = ['active', 'closed'] as const;
export type MilestoneState = (typeof MILESTONE_STATES)[number];

export const MILESTONE_STATE_EVENTS = ['close', 'activate'] as const;
export type MilestoneStateEvent = (typeof MILESTONE_STATE_EVENTS)[number];

export const isExpired = (ctx: { readonly clock: Clock }, { due_date }: Pick<MilestoneRow, 'due_date'>): boolean =>
  due_date !== null && due_date < today(ctx.clock);

export const isUpcoming = (ctx: { readonly clock: Clock }, { start_date }: Pick<MilestoneRow, 'start_date'>): boolean =>
  start_date !== null && start_date > today(ctx.clock);

type Owned = Pick<MilestoneRow, 'iid' | 'project_id' | 'owner_path'>;

/** Returns the web URL of the milestone, below its project or group. */
export const milestoneWebUrl = (ctx: Pick<Context, 'services'>, milestone: Owned): string => {
  const owner =
    milestone.project_id === null
      ? namespaceWebUrl(ctx, { kind: 'group', full_path: milestone.owner_path })
      : projectWebUrl(ctx, { full_path: milestone.owner_path });
  return `${owner}/-/milestones/${milestone.iid}`;
};
