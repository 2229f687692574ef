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

/** The body of member events (reference: webhooks §3). */
export const memberBody =
  (event_name: MemberEventName) =>
  (_ctx: Context, _event: EventRow, member: MemberPayload): Promise<Record<string, unknown>> =>
    Promise.resolve({
      created_at: isoTime(member.created_at),
      updated_at: isoTime(member.updated_at),
      group_name: member.source.name,
      group_path: member.source.path,
      group_id: member.source.id,
      user_username: member.user.username,
      user_name: member.user.name,
      user_email: member.user.email,
      user_id: member.user.id,
      group_access: roleName(member.access_level),
      // There are no plans.
      group_plan: null,
      expires_at: member.expires_at === null ? null : `${member.expires_at}T00:00:00Z`,
      event_name,
    });
