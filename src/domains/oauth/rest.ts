import { z } from 'zod';
import { originShape, toOrigin } from '#domains/tokens/record.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, integer, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import {
  type ApplicationRow,
  type CreatedApplication,
  createApplication,
  listApplications,
  removeApplication,
  renewSecret,
} from './applications.ts';

const tag = 'OAuth applications';

const applicationRecord = z
  .object({
    id: z.int(),
    /** The `client_id` that clients send. */
    application_id: z.string(),
    application_name: z.string(),
    callback_url: z.string(),
    confidential: z.boolean(),
    scopes: z.array(z.string()),
    ...originShape,
  })
  .meta({ id: 'Application' });

/** With the secret, which is returned once. */
const createdApplicationRecord = applicationRecord.extend({ secret: z.string() }).meta({ id: 'CreatedApplication' });

export const routes = [
  listRoute({
    path: '/applications',
    tag,
    summary: 'List all OAuth applications',
    admin: true,
    paging: 'offset',
    item: applicationRecord,
    run: async (ctx, _input, page) => {
      const { items, ...rest } = await readPage(listApplications(ctx, { all: true }), page);
      return { ...rest, items: items.map(toApplication) };
    },
  }),
  route({
    method: 'POST',
    path: '/applications',
    tag,
    summary: 'Register an instance-wide OAuth application',
    admin: true,
    input: {
      name: text(),
      redirect_uri: text().describe('Separate several with line breaks.'),
      scopes: text().describe('Separated by spaces.'),
      confidential: boolean().default(true),
    },
    response: createdApplicationRecord,
    run: async (ctx, { name, redirect_uri, scopes, confidential }) =>
      toCreated(
        await createApplication(
          ctx,
          { name, redirect_uris: words(redirect_uri), scopes: words(scopes), confidential },
          { forHub: true },
        ),
      ),
  }),
  route({
    method: 'DELETE',
    path: '/applications/:id',
    tag,
    summary: 'Delete an OAuth application with all its tokens',
    admin: true,
    refusals: MODIFIED,
    input: { id: integer() },
    response: null,
    run: async (ctx, { id }, http) => {
      await removeApplication(ctx, id, unmodifiedSince(http));
    },
  }),
  route({
    method: 'POST',
    path: '/applications/:id/renew-secret',
    tag,
    summary: 'Renew the secret of an OAuth application',
    admin: true,
    input: { id: integer() },
    response: createdApplicationRecord,
    run: async (ctx, { id }) => toCreated(await renewSecret(ctx, id)),
  }),
];

const words = (given: string): string[] => given.split(/\s+/).filter((word) => word !== '');

const toApplication = (row: ApplicationRow): z.output<typeof applicationRecord> => ({
  id: row.id,
  application_id: row.uid,
  application_name: row.name,
  callback_url: row.redirect_uris.join('\n'),
  confidential: row.confidential,
  scopes: row.scopes,
  ...toOrigin(row),
});

const toCreated = (row: CreatedApplication): z.output<typeof createdApplicationRecord> => ({
  ...toApplication(row),
  secret: row.secret,
});
