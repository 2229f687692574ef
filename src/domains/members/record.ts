import { z } from 'zod';
import { usersByIds } from '#domains/users/queries.ts';
import { toUserBasic, userBasicRecord } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { MEMBERSHIP_SOURCES, type Membership } from './memberships.ts';
import type { MemberRow } from './queries.ts';

/** A member: the user with their role (reference: neighbours B). */
export const memberRecord = z
  .object({
    ...userBasicRecord.shape,
    access_level: z.int(),
    created_at: z.string(),
    created_by: userBasicRecord.nullable(),
    expires_at: z.string().nullable(),
    membership_state: z.literal('active'),
    group_saml_identity: z.null(),
    /** Only for administrators. */
    email: z.string().optional(),
  })
  .meta({ id: 'Member' });

export const projectShareRecord = z
  .object({
    id: z.int(),
    project_id: z.int(),
    group_id: z.int(),
    group_access: z.int(),
    expires_at: z.string().nullable(),
  })
  .meta({ id: 'ProjectShare' });

/** A user's membership (specification 2 §2.2). The role is a number as text. */
export const membershipRecord = z
  .object({
    source_id: z.int(),
    source_name: z.string(),
    source_type: z.enum(MEMBERSHIP_SOURCES),
    access_level: z.string(),
  })
  .meta({ id: 'Membership' });

export const toMembership = ({ access_level, source_id, source_name, source_type }: Membership) => ({
  source_id,
  source_name,
  source_type,
  access_level: String(access_level),
});

type MemberRecord = z.output<typeof memberRecord>;

/** Returns the record of one member. @throws DomainError `not_found` if the user has been deleted */
export const toMember = async (ctx: Context, member: MemberRow): Promise<MemberRecord> => {
  const [record] = await toMembers(ctx, [member]);
  if (!record) throw notFound();
  return record;
};

/** Returns the members' records. Deleted users are left out. */
export const toMembers = async (ctx: Context, members: readonly MemberRow[]): Promise<MemberRecord[]> => {
  const ids = members.flatMap((member) => [member.user_id, member.created_by_id ?? []].flat());
  const users = await usersByIds(ctx, [...new Set(ids)]);
  return members.flatMap((member) => {
    const user = users.get(member.user_id);
    if (!user) return [];
    const creator = member.created_by_id === null ? undefined : users.get(member.created_by_id);
    return {
      ...toUserBasic(ctx, user),
      access_level: member.access_level,
      created_at: isoTime(member.created_at),
      created_by: creator ? toUserBasic(ctx, creator) : null,
      expires_at: member.expires_at,
      membership_state: 'active' as const,
      group_saml_identity: null,
      ...(ctx.actor.isAdmin ? { email: user.email } : {}),
    };
  });
};
