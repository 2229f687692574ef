import { z } from 'zod';
import { usersByIds } from '#domains/users/queries.ts';
import { toUserBasic, userBasicRecord } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { badParameters, DomainError, notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { only } from '#platform/values/only.ts';
import { date, idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { deleteInvitation, type InvitationRow, invite, listInvitations, updateInvitation } from '../invitations.ts';
import { memberRecord, toMember } from '../record.ts';
import { type AccessRequestRow, approveRequest, denyRequest, listAccessRequests, requestAccess } from '../requests.ts';
import { FOR_ALL, type SourceKind, splitCommas } from './source-kind.ts';

const MAX_ADDRESSES = 20;
const MAX_LENGTH = 10_000;

const accessRequestRecord = z
  .object({ ...userBasicRecord.shape, requested_at: z.string() })
  .meta({ id: 'AccessRequest' });

const invitationRecord = z
  .object({
    id: z.int(),
    invite_email: z.string(),
    access_level: z.int(),
    created_at: z.string(),
    expires_at: z.string().nullable(),
    /** Does not reveal which user may have the address. */
    user_name: z.string(),
    created_by_name: z.string().nullable(),
  })
  .meta({ id: 'Invitation' });

const outcomeRecord = z
  .object({ status: z.enum(['success', 'error']), message: z.record(z.string(), z.string()).optional() })
  .meta({ id: 'InvitationsSent' });

const toRequests = async (ctx: Context, rows: readonly AccessRequestRow[]) => {
  const users = await usersByIds(
    ctx,
    rows.map((row) => row.user_id),
  );
  return rows.flatMap(({ user_id, requested_at }) => {
    const user = users.get(user_id);
    return user ? { ...toUserBasic(ctx, user), requested_at: isoTime(requested_at) } : [];
  });
};

const toInvitations = async (ctx: Context, rows: readonly InvitationRow[]) => {
  const users = await usersByIds(
    ctx,
    rows.flatMap((row) => row.created_by_id ?? []),
  );
  return rows.map(({ id, email, access_level, created_at, expires_at, created_by_id }) => ({
    id,
    invite_email: email,
    access_level,
    created_at: isoTime(created_at),
    expires_at,
    user_name: '',
    created_by_name: (created_by_id === null ? null : users.get(created_by_id)?.name) ?? null,
  }));
};

/** The ways to join other than being added: access requests and invitations. */
export const joiningRoutes = (place: SourceKind): Route[] => [
  listRoute({
    path: `${place.path}/access_requests`,
    tag: 'Members',
    summary: `List the access requests of a ${place.noun}`,
    paging: 'offset',
    item: accessRequestRecord,
    input: { id: idOrPath() },
    run: async (ctx, { id }, page) => {
      const found = await readPage(listAccessRequests(ctx, await place.source(ctx, id)), page);
      return { ...found, items: await toRequests(ctx, found.items) };
    },
  }),
  route({
    method: 'POST',
    path: `${place.path}/access_requests`,
    tag: 'Members',
    summary: `Request access to a ${place.noun}`,
    input: { id: idOrPath() },
    response: accessRequestRecord,
    run: async (ctx, { id }) => {
      const [record] = await toRequests(ctx, [await requestAccess(ctx, await place.source(ctx, id))]);
      if (!record) throw notFound('User');
      return record;
    },
  }),
  route({
    method: 'PUT',
    path: `${place.path}/access_requests/:user_id/approve`,
    tag: 'Members',
    summary: `Approve an access request of a ${place.noun}`,
    status: 201,
    input: { id: idOrPath(), user_id: integer(), access_level: integer().optional() },
    response: memberRecord,
    run: async (ctx, { id, user_id, access_level }) =>
      toMember(ctx, await approveRequest(ctx, await place.source(ctx, id), user_id, access_level)),
  }),
  route({
    method: 'DELETE',
    path: `${place.path}/access_requests/:user_id`,
    tag: 'Members',
    summary: `Deny an access request of a ${place.noun}, or withdraw one's own`,
    input: { id: idOrPath(), user_id: integer() },
    response: null,
    run: async (ctx, { id, user_id }) => denyRequest(ctx, await place.source(ctx, id), user_id),
  }),
  listRoute({
    path: `${place.path}/invitations`,
    tag: 'Members',
    summary: `List the open invitations to a ${place.noun}`,
    paging: 'offset',
    item: invitationRecord,
    input: { id: idOrPath(), query: text({ max: 255 }).optional() },
    run: async (ctx, { id, query }, page) => {
      const found = await readPage(listInvitations(ctx, await place.source(ctx, id), query), page);
      return { ...found, items: await toInvitations(ctx, found.items) };
    },
  }),
  route({
    method: 'POST',
    path: `${place.path}/invitations`,
    tag: 'Members',
    summary: `Invite email addresses to a ${place.noun}`,
    description:
      'Up to 20 addresses, separated by commas. The response lists an error for each address that could not be invited.',
    input: {
      id: idOrPath(),
      email: text({ max: MAX_LENGTH }),
      access_level: integer(),
      expires_at: date().nullish(),
    },
    response: outcomeRecord,
    run: async (ctx, { id, email, ...role }) => {
      const source = await place.source(ctx, id);
      const wanted = new Map(splitCommas(email).map((each) => [each.toLowerCase(), each]));
      if (wanted.size === 0 || wanted.size > MAX_ADDRESSES) throw badParameters('email is invalid');
      const message: Record<string, string> = {};
      for (const each of wanted.values()) {
        try {
          await invite(ctx, source, { ...role, email: each });
        } catch (error) {
          if (!(error instanceof DomainError) || FOR_ALL.has(error.code)) throw error;
          message[each] = error.message;
        }
      }
      return Object.keys(message).length > 0 ? { status: 'error' as const, message } : { status: 'success' as const };
    },
  }),
  route({
    method: 'PUT',
    path: `${place.path}/invitations/:email`,
    tag: 'Members',
    summary: `Change an invitation to a ${place.noun}`,
    input: {
      id: idOrPath(),
      email: text({ max: 255 }),
      access_level: integer().optional(),
      expires_at: date().nullish(),
    },
    response: invitationRecord,
    run: async (ctx, { id, email, ...changes }) => {
      const row = await updateInvitation(ctx, await place.source(ctx, id), email, changes);
      return only(await toInvitations(ctx, [row]));
    },
  }),
  route({
    method: 'DELETE',
    path: `${place.path}/invitations/:email`,
    tag: 'Members',
    summary: `Revoke an invitation to a ${place.noun}`,
    input: { id: idOrPath(), email: text({ max: 255 }) },
    response: null,
    run: async (ctx, { id, email }) => deleteInvitation(ctx, await place.source(ctx, id), email),
  }),
];
