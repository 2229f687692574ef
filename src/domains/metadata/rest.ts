import { z } from 'zod';
import { route } from '#rest/route.ts';
import { getRevision, VERSION } from './version.ts';

const tag = 'Metadata';
const scopes = ['api', 'read_api', 'read_user'] as const;

const versionRecord = z.object({ version: z.string(), revision: z.string() }).meta({ id: 'Version' });

const metadataRecord = versionRecord
  .extend({
    kas: z.object({
      enabled: z.boolean(),
      externalUrl: z.string().nullable(),
      externalK8sProxyUrl: z.string().nullable(),
      version: z.string().nullable(),
    }),
    enterprise: z.boolean(),
  })
  .meta({ id: 'Metadata' });

export const routes = [
  route({
    method: 'GET',
    path: '/version',
    tag,
    summary: 'Get the version',
    scopes,
    response: versionRecord,
    run: async () => ({ version: VERSION, revision: await getRevision() }),
  }),
  route({
    method: 'GET',
    path: '/metadata',
    tag,
    summary: 'Get metadata of the instance',
    scopes,
    response: metadataRecord,
    run: async () => ({
      version: VERSION,
      revision: await getRevision(),
      // There is no agent server.
      kas: { enabled: false, externalUrl: null, externalK8sProxyUrl: null, version: null },
      enterprise: false,
    }),
  }),
];
