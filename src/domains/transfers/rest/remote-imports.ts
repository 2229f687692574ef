import { removedAttributes } from '#domains/projects/attributes.ts';
import type { Rule } from '#rest/input.ts';
import { anyHash, atLeastOneOf, boolean, declaredRequired, exclusive, idOrPath, text } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { removedInsideInV5 } from '#rest/v5.ts';
import { type S3Object, s3Object } from '../downloading/source.ts';
import { findImport } from '../queries.ts';
import { importRecord, toImportRecord } from '../record.ts';
import { scheduleRemoteImport } from '../remote-import.ts';

const tag = 'Exports and imports';

export const overrideParams = () =>
  removedInsideInV5(
    anyHash()
      .nullish()
      .describe(
        'Overrides what the archive says: every attribute of `PUT /projects/:id` except `avatar`, and `archived`. Other names are refused. Empty values override nothing.',
      ),
    removedAttributes,
  );

const target = {
  path: text({ max: 1_024 }).describe('The path of the new project, or its full path.'),
  name: text({ max: 255 }).nullish(),
  namespace: idOrPath().nullish(),
};

const object = {
  region: text({ max: 63 }),
  bucket_name: text({ max: 63 }),
  file_key: text({ max: 1_024 }),
  access_key_id: text({ max: 255 }),
  secret_access_key: text({ max: 1_024 }),
};
const objectIfAny = {
  region: object.region.optional(),
  bucket_name: object.bucket_name.optional(),
  file_key: object.file_key.optional(),
  access_key_id: object.access_key_id.optional(),
  secret_access_key: object.secret_access_key.optional(),
};
const OBJECT = ['region', 'bucket_name', 'file_key', 'access_key_id', 'secret_access_key'] as const;

const wholeObject: Rule<(typeof OBJECT)[number]> = {
  names: OBJECT,
  check: (given) => {
    const missing = OBJECT.filter((name) => given[name] === undefined);
    return missing.length > 0 && missing.length < OBJECT.length
      ? `${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing`
      : null;
  },
};

export const remoteImportRoutes = [
  route({
    method: 'POST',
    path: '/projects/remote-import',
    tag,
    summary: 'Import a project from a remote archive',
    description:
      'The server must send a `Content-Length` of at most 10 GB and the `Content-Type` `application/gzip`. Also accepts the parameters of `/projects/remote-import-s3` in place of `url`.',
    input: {
      ...target,
      url: declaredRequired(text({ max: 8_192 }).optional()).describe('May be omitted if the file is in a bucket.'),
      ...objectIfAny,
      overwrite: boolean().default(false),
      override_params: overrideParams(),
    },
    rules: [atLeastOneOf('url', 'bucket_name'), exclusive('url', 'bucket_name'), wholeObject],
    response: importRecord,
    run: async (ctx, { url, region, bucket_name, file_key, access_key_id, secret_access_key, ...options }) => {
      const s3 = s3Object.safeParse({ region, bucket_name, file_key, access_key_id, secret_access_key });
      const source = s3.success ? { s3: s3.data } : { url: url ?? '' };
      const project = await scheduleRemoteImport(ctx, source, options);
      return toImportRecord(project, await findImport(ctx, project.id), []);
    },
  }),
  route({
    method: 'POST',
    path: '/projects/remote-import-s3',
    tag,
    summary: 'Import a project from an archive in an S3 bucket',
    description:
      'The keys are stored encrypted until the file is downloaded. The environment variable `AWS_ENDPOINT_URL_S3` of the hub selects another store than Amazon S3.',
    input: { ...target, ...object },
    response: importRecord,
    run: async (ctx, { region, bucket_name, file_key, access_key_id, secret_access_key, ...options }) => {
      const s3: S3Object = { region, bucket_name, file_key, access_key_id, secret_access_key };
      const project = await scheduleRemoteImport(ctx, { s3 }, options);
      return toImportRecord(project, await findImport(ctx, project.id), []);
    },
  }),
];
