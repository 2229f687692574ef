import { z } from 'zod';
import { readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { boolean, integer, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { addEmail, type EmailRow, getEmail, listEmails, removeEmail } from '../emails.ts';
import { requireUser } from '../policy.ts';
import { currentPassword } from '../record.ts';

const tag = 'Email addresses';
const READ_SCOPES = ['api', 'read_api', 'read_user'] as const;

const emailRecord = z
  .object({ id: z.int(), email: z.string(), confirmed_at: z.string().nullable() })
  .meta({ id: 'Email' });

const toEmail = ({ id, email, confirmed_at }: EmailRow): z.output<typeof emailRecord> => ({
  id,
  email,
  confirmed_at: isoTime(confirmed_at),
});

const proof = { current_password: currentPassword() };

const userId = () => integer({ min: 0 });

/** Secondary addresses: the caller's own, and everyone's for administrators. */
export const emailRoutes = [
  listRoute({
    path: '/user/emails',
    tag,
    summary: 'List your email addresses',
    description: 'Lists the secondary addresses. `GET /user` returns the primary one.',
    scopes: READ_SCOPES,
    paging: 'offset',
    item: emailRecord,
    run: async (ctx, _input, page) => {
      const { items, ...rest } = await readPage(await listEmails(ctx, requireUser(ctx)), page);
      return { ...rest, items: items.map(toEmail) };
    },
  }),
  route({
    method: 'GET',
    path: '/user/emails/:email_id',
    tag,
    summary: 'Get one of your email addresses',
    scopes: READ_SCOPES,
    input: { email_id: integer({ min: 0 }) },
    response: emailRecord,
    run: async (ctx, { email_id }) => toEmail(await getEmail(ctx, requireUser(ctx), email_id)),
  }),
  route({
    method: 'POST',
    path: '/user/emails',
    tag,
    summary: 'Add an email address',
    description: 'Mails the address a confirmation link. It has no effect until it is confirmed.',
    input: { email: text(), ...proof },
    response: emailRecord,
    run: async (ctx, input) => toEmail(await addEmail(ctx, requireUser(ctx), input)),
  }),
  route({
    method: 'DELETE',
    path: '/user/emails/:email_id',
    tag,
    summary: 'Remove one of your email addresses',
    input: { email_id: integer({ min: 0 }), ...proof },
    response: null,
    run: async (ctx, { email_id, ...given }) =>
      removeEmail(ctx, await getEmail(ctx, requireUser(ctx), email_id), given),
  }),
  listRoute({
    path: '/users/:id/emails',
    tag,
    summary: "List a user's email addresses",
    admin: true,
    scopes: READ_SCOPES,
    input: { id: userId() },
    paging: 'offset',
    item: emailRecord,
    run: async (ctx, { id }, page) => {
      const { items, ...rest } = await readPage(await listEmails(ctx, id), page);
      return { ...rest, items: items.map(toEmail) };
    },
  }),
  route({
    method: 'POST',
    path: '/users/:id/emails',
    tag,
    summary: 'Add an email address to a user',
    description: 'With `skip_confirmation` the address is marked as confirmed and gets no mail.',
    admin: true,
    input: { id: userId(), email: text(), skip_confirmation: boolean().optional(), ...proof },
    response: emailRecord,
    run: async (ctx, { id, ...input }) => toEmail(await addEmail(ctx, id, input)),
  }),
  route({
    method: 'DELETE',
    path: '/users/:id/emails/:email_id',
    tag,
    summary: 'Remove an email address of a user',
    admin: true,
    input: { id: userId(), email_id: integer({ min: 0 }), ...proof },
    response: null,
    run: async (ctx, { id, email_id, ...given }) => removeEmail(ctx, await getEmail(ctx, id, email_id), given),
  }),
];
