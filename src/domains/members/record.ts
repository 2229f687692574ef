import { z } from 'zod';
import { usersByIds } from '#domains/users/queries.ts';
import { toUserBasic, userBasicRecord } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import type { MemberRow } from './queries.ts';

/** A member: the user with the role (reference: neighbours B). */
export const memberRecord = z
  .object({
    ...userBasicRecord.shape,
    access_level: z.int(),
    created_at: z.string(),
    created_by: userBasicRecord.nullable(),
    expires_at: z.string().nullable(),
    membership_state: z.literal('active'),
    group_saml_identity: z.null(),
    /** Only to administrators. */
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

type MemberRecord = z.output<typeof memberRecord>;

/** The members' records; users who have gone meanwhile are left out. */
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
