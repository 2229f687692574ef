import { findNamespace } from '#domains/groups/queries.ts';
import { hookGroup } from '#domains/groups/webhook.ts';
import { findProjectWith } from '#domains/projects/queries.ts';
import { HOOK_PARTS, hookProject } from '#domains/projects/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { hookTime } from '#platform/time.ts';
import type { MilestonePayload } from './events.ts';

/** The body of milestone events (reference: webhooks §3), with the milestone's project or group. */
export const milestoneBody =
  (action: 'create' | 'close' | 'reopen' | 'delete') =>
  async (ctx: Context, _event: EventRow, milestone: MilestonePayload): Promise<Record<string, unknown> | null> => {
    const owner = await hookOwner(ctx, milestone);
    if (!owner) return null;
    return {
      object_kind: 'milestone',
      event_type: 'milestone',
      ...owner,
      object_attributes: {
        id: milestone.id,
        iid: milestone.iid,
        title: milestone.title,
        description: milestone.description,
        state: milestone.state,
        created_at: hookTime(milestone.created_at),
        updated_at: hookTime(milestone.updated_at),
        due_date: milestone.due_date,
        start_date: milestone.start_date,
        group_id: milestone.group_id,
        project_id: milestone.project_id,
      },
      action,
    };
  };

/** Null if the project or group has been deleted. */
const hookOwner = async (ctx: Context, { project_id, group_id }: MilestonePayload) => {
  if (project_id !== null) {
    const project = await findProjectWith(ctx, { id: project_id }, HOOK_PARTS);
    return project && { project: hookProject(ctx, project) };
  }
  const group = await findNamespace(ctx, { id: group_id ?? 0 });
  return group && { group: hookGroup(group) };
};
