import { ProjectRef } from '#domains/projects/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { invalid } from '#platform/errors.ts';
import { scheduleRemoteImport } from '../remote-import.ts';

const S3ObjectInput = builder.inputType('ProjectImportS3Object', {
  description: 'An archive in an S3-compatible bucket. The keys are stored encrypted until it is downloaded.',
  fields: (t) => ({
    region: t.string({ required: true }),
    bucketName: t.string({ required: true }),
    fileKey: t.string({ required: true }),
    accessKeyId: t.string({ required: true }),
    secretAccessKey: t.string({ required: true }),
  }),
});

mutationField('projectRemoteImport', {
  description:
    'Imports a project from an archive behind a URL or in a bucket. The project exists at once; jobs download and import the archive. See `import` for the progress.',
  input: (t) => ({
    path: t.string({
      required: true,
      description: 'The path of the new project, or its full path if `namespacePath` is absent.',
    }),
    name: t.string({ description: 'Defaults to the path.' }),
    namespacePath: t.id({ description: "Defaults to the caller's own namespace." }),
    url: t.string({ description: 'Either this or `s3` is required.' }),
    s3: t.field({ type: S3ObjectInput }),
    overwrite: t.boolean({ description: 'Replaces a project with the same path.' }),
    overrideParams: t.field({
      type: 'JSON',
      description: 'Attributes of the project that replace those of the archive.',
    }),
  }),
  payload: { project: ProjectRef },
  run: async (ctx, { path, name, namespacePath, url, s3, overwrite, overrideParams }) => {
    if ((url == null) === (s3 == null)) throw invalid({ url: ['either this or s3 must be given'] });
    const source = s3
      ? {
          s3: {
            region: s3.region,
            bucket_name: s3.bucketName,
            file_key: s3.fileKey,
            access_key_id: s3.accessKeyId,
            secret_access_key: s3.secretAccessKey,
          },
        }
      : { url: url ?? '' };
    const project = await scheduleRemoteImport(ctx, source, {
      path,
      name,
      namespace: namespacePath == null ? null : { path: String(namespacePath) },
      overwrite: overwrite ?? false,
      override_params: overridesIn(overrideParams),
    });
    return { project };
  },
});

const overridesIn = (value: unknown): Readonly<Record<string, unknown>> => {
  if (value === null || value === undefined) return {};
  if (typeof value !== 'object' || Array.isArray(value)) throw invalid({ overrideParams: ['must be an object'] });
  return { ...value };
};
