import { findProjectWith } from '#domains/projects/queries.ts';
import { HOOK_PARTS, hookProject } from '#domains/projects/webhook.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { hookTime } from '#platform/time.ts';
import type { ErrorPayload } from './events.ts';
import { type ErrorChange, errorWebUrl } from './model.ts';

/** The body of events about errors. `user` is the person who resolved it. Null if the project has been deleted. */
export const errorBody =
  (action: ErrorChange) =>
  async (ctx: Context, { actor_id }: EventRow, error: ErrorPayload): Promise<Record<string, unknown> | null> => {
    const project = await findProjectWith(ctx, { id: error.project_id }, HOOK_PARTS);
    if (!project) return null;
    const user = actor_id === null ? null : (await userSummariesByIds(ctx, [actor_id])).get(actor_id);
    return {
      object_kind: 'error_tracking_error',
      event_type: 'error_tracking_error',
      user: user ? hookUser(ctx, user) : null,
      project: hookProject(ctx, project),
      object_attributes: {
        id: error.id,
        project_id: error.project_id,
        status: error.status,
        level: error.level,
        platform: error.platform,
        type: error.type,
        title: error.title,
        culprit: error.culprit,
        first_seen: hookTime(error.first_seen),
        last_seen: hookTime(error.last_seen),
        event_count: error.event_count,
        user_count: error.user_count,
        first_release: error.first_release,
        last_release: error.last_release,
        newest_event_id: error.newest_event_id,
        assignee_id: error.assignee_id,
        issue_id: error.issue_id,
        url: errorWebUrl(ctx, project, error),
        action,
      },
    };
  };
