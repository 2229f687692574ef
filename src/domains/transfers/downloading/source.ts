import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { decrypt, encrypt } from '#platform/secrets.ts';

/** An object in an S3-compatible bucket, with the caller's own keys. */
export const s3Object = z.object({
  region: z.string(),
  bucket_name: z.string(),
  file_key: z.string(),
  access_key_id: z.string(),
  secret_access_key: z.string(),
});
export type S3Object = z.output<typeof s3Object>;

const archiveSource = z.union([z.object({ url: z.string() }), z.object({ s3: s3Object })]);
/** Where to download an archive from: a URL, or an object in a bucket. */
export type ArchiveSource = z.output<typeof archiveSource>;

const PURPOSE = 'transfers.archive_source';

/** Encrypts the source. URLs often contain a signature, and buckets come with keys. */
export const sealSource = ({ services }: Pick<Context, 'services'>, source: ArchiveSource): Buffer =>
  encrypt(services.secretKey, JSON.stringify(source), PURPOSE);

export const openSource = ({ services }: Pick<Context, 'services'>, sealed: Buffer): ArchiveSource =>
  archiveSource.parse(JSON.parse(decrypt(services.secretKey, sealed, PURPOSE)));

const SIGNED_FOR_SECONDS = 3_600;

/**
 * Returns the URL for one request. For objects in a bucket it is signed for an hour, so that each further request needs
 * a new one. `AWS_ENDPOINT_URL_S3` selects another store than Amazon's.
 */
export const requestUrl = async (source: ArchiveSource, method: 'GET' | 'HEAD'): Promise<string> => {
  if ('url' in source) return source.url;
  const [{ S3Client, GetObjectCommand, HeadObjectCommand }, { getSignedUrl }] = await Promise.all([
    import('@aws-sdk/client-s3'),
    import('@aws-sdk/s3-request-presigner'),
  ]);
  const { region, bucket_name, file_key, access_key_id, secret_access_key } = source.s3;
  const client = new S3Client({
    region,
    credentials: { accessKeyId: access_key_id, secretAccessKey: secret_access_key },
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // Other stores often lack a host name per bucket.
    forcePathStyle: Boolean(process.env.AWS_ENDPOINT_URL_S3 || process.env.AWS_ENDPOINT_URL),
  });
  try {
    const object = { Bucket: bucket_name, Key: file_key };
    const command = method === 'HEAD' ? new HeadObjectCommand(object) : new GetObjectCommand(object);
    return await getSignedUrl(client, command, { expiresIn: SIGNED_FOR_SECONDS });
  } finally {
    client.destroy();
  }
};
