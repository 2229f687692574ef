import { roleName } from '#domains/access/model.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';
import type { MemberPayload } from './events.ts';

type MemberEventName =
  | 'user_add_to_group'
  | 'user_update_for_group'
  | 'user_remove_from_group'
  | 'user_access_request_to_group'
  | 'user_access_request_denied_for_group';

/** The same events of projects. */
const OF_PROJECTS: Readonly<Partial<Record<MemberEventName, string>>> = {
  user_add_to_group: 'user_add_to_team',
  user_update_for_group: 'user_update_for_team',
  user_remove_from_group: 'user_remove_from_team',
};

/** The body of member events (reference: webhooks §3). */
export const memberBody =
  (event_name: MemberEventName) =>
  (_ctx: Context, _event: EventRow, member: MemberPayload): Promise<Record<string, unknown>> => {
    const { source, user } = member;
    const common = {
      created_at: isoTime(member.created_at),
      updated_at: isoTime(member.updated_at),
      user_username: user.username,
      user_name: user.name,
      user_email: user.email,
      user_id: user.id,
      expires_at: member.expires_at === null ? null : `${member.expires_at}T00:00:00Z`,
    };
    if (source.type === 'Project') {
      return Promise.resolve({
        ...common,
        project_name: source.name,
        project_path: source.path,
        project_path_with_namespace: source.full_path,
        project_id: source.id,
        access_level: roleName(member.access_level),
        event_name: OF_PROJECTS[event_name] ?? event_name,
      });
    }
    return Promise.resolve({
      ...common,
      group_name: source.name,
      group_path: source.path,
      group_id: source.id,
      group_access: roleName(member.access_level),
      // There are no plans.
      group_plan: null,
      event_name,
    });
  };
