import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';
import type { GroupPayload } from './events.ts';
import type { GroupRow } from './queries.ts';

/** The body of events of groups (reference: webhooks §3), sent to the hooks of the groups above and to system hooks. */
export const groupBody =
  (verb: 'create' | 'destroy') =>
  (_ctx: Context, _event: EventRow, group: GroupPayload): Promise<Record<string, unknown>> =>
    Promise.resolve({
      created_at: isoTime(group.created_at),
      updated_at: isoTime(group.updated_at),
      event_name: `${group.parent ? 'subgroup' : 'group'}_${verb}`,
      name: group.name,
      path: group.path,
      full_path: group.full_path,
      group_id: group.id,
      parent_group_id: group.parent?.id ?? null,
      parent_name: group.parent?.name ?? null,
      parent_path: group.parent?.path ?? null,
      parent_full_path: group.parent?.full_path ?? null,
    });

/** The group object of webhook bodies. */
export const hookGroup = (group: Pick<GroupRow, 'id' | 'name' | 'path' | 'full_path'>) => ({
  group_name: group.name,
  group_path: group.path,
  group_id: group.id,
  full_path: group.full_path,
});
