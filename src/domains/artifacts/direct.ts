import type { Context } from '#platform/context.ts';
import type { ArtifactRow } from './queries.ts';

const VALID_SECONDS = 600;

/**
 * Returns a URL of the object storage that serves the artifact for ten minutes to everyone who has it. Null if files are
 * stored locally, or `MILLRACE_S3_DOWNLOADS` is not `redirect`.
 */
export const directUrl = async (
  { services: { storage, config } }: Pick<Context, 'services'>,
  { storage_key, filename }: Pick<ArtifactRow, 'storage_key' | 'filename'>,
): Promise<string | null> =>
  config.s3Downloads === 'redirect'
    ? storage.signedUrl(storage_key, { filename, expiresInSeconds: VALID_SECONDS })
    : null;
