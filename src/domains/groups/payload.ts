import { visibilityName } from '#domains/access/model.ts';
import { isoTime } from '#platform/time.ts';
import type { GroupPayload } from './events.ts';
import type { GroupRow } from './queries.ts';

/** Returns the scope of a group's events. */
export const groupScope = ({
  id,
  traversal_ids,
  visibility_level,
}: Pick<GroupRow, 'id' | 'traversal_ids' | 'visibility_level'>) => ({
  subject: { type: 'Group', id },
  namespace_ids: traversal_ids,
  visibility_level,
});

/** Returns the group as event payload. */
export const groupPayload = (
  group: Omit<GroupRow, 'access_level'>,
  parent: NonNullable<GroupPayload['parent']> | null,
): GroupPayload => ({
  id: group.id,
  name: group.name,
  path: group.path,
  full_path: group.full_path,
  visibility: visibilityName(group.visibility_level),
  created_at: isoTime(group.created_at),
  updated_at: isoTime(group.updated_at),
  parent: parent && { id: parent.id, name: parent.name, path: parent.path, full_path: parent.full_path },
});
