import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { memberBody } from './webhook.ts';

const member = z.object({
  id: z.number(),
  user: z.object({ id: z.number(), username: z.string(), name: z.string(), email: z.string() }),
  source: z.object({
    type: z.enum(['Group', 'Project']),
    id: z.number(),
    name: z.string(),
    path: z.string(),
    full_path: z.string(),
  }),
  access_level: z.number(),
  expires_at: z.string().nullable(),
  created_at: z.string(),
  updated_at: z.string(),
});
export type MemberPayload = z.output<typeof member>;

/** Only system hooks receive events of members of projects (reference: webhooks §3). */
const trigger = ({ source }: MemberPayload) => (source.type === 'Group' ? 'member_events' : 'project_member_events');
/** No hook receives requests for access to projects. */
const requestTrigger = ({ source }: MemberPayload) => (source.type === 'Group' ? 'member_events' : null);

export const memberAdded = defineEvent('member.added', member, { trigger, body: memberBody('user_add_to_group') });

const changed = member.extend({
  changes: z.record(
    z.string(),
    z.object({
      previous: z.union([z.number(), z.string(), z.null()]),
      current: z.union([z.number(), z.string(), z.null()]),
    }),
  ),
});

export const memberUpdated = defineEvent<z.output<typeof changed>>('member.updated', changed, {
  trigger,
  body: memberBody('user_update_for_group'),
});

export const memberRemoved = defineEvent('member.removed', member, {
  trigger,
  body: memberBody('user_remove_from_group'),
});

/** A user requests access. `access_level` is the level that they get unless another is chosen. */
export const accessRequested = defineEvent('access_request.created', member, {
  trigger: requestTrigger,
  body: memberBody('user_access_request_to_group'),
});
export const accessDenied = defineEvent('access_request.denied', member, {
  trigger: requestTrigger,
  body: memberBody('user_access_request_denied_for_group'),
});
/** The user withdrew their own request. */
export const accessWithdrawn = defineEvent('access_request.withdrawn', member);

/** Contains neither the address nor the token. */
const invitation = z.object({
  id: z.number(),
  source: member.shape.source,
  access_level: z.number(),
  expires_at: z.string().nullable(),
});
export type InvitationPayload = z.output<typeof invitation>;
export const invitationCreated = defineEvent('invitation.created', invitation);
export const invitationUpdated = defineEvent('invitation.updated', invitation);
export const invitationDeleted = defineEvent('invitation.deleted', invitation);
export const invitationAccepted = defineEvent('invitation.accepted', invitation);

const share = z.object({
  id: z.number(),
  project: z.object({ id: z.number(), full_path: z.string() }),
  shared_with: z.object({ id: z.number(), full_path: z.string() }),
  access_level: z.number(),
  expires_at: z.string().nullable(),
});

export const projectShared = defineEvent('project.shared', share);
export const projectUnshared = defineEvent('project.unshared', share);
