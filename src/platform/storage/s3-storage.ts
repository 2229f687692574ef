import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { S3Client } from '@aws-sdk/client-s3';
import { DomainError, notFound } from '#platform/errors.ts';
import { createMeter, toStorageError, withCause } from './meter.ts';
import {
  assertKey,
  assertRange,
  type ByteRange,
  type ListedFile,
  type OpenFile,
  outside,
  type Storage,
} from './storage.ts';

export interface S3Options {
  readonly bucket: string;
  /** Prepended to every key, such as `millrace/`. */
  readonly prefix?: string;
}

/** Stores files in an S3 bucket. Region, endpoint and credentials are the standard `AWS_*` environment variables. */
export const createS3Storage = ({ bucket, prefix = '' }: S3Options): Storage => {
  let opened: ReturnType<typeof connect> | undefined;
  const s3 = () => {
    opened ??= connect();
    return opened;
  };
  const target = (key: string) => {
    assertKey(key);
    return { Bucket: bucket, Key: prefix + key };
  };

  const statFile = async (key: string): Promise<{ size: number } | null> => {
    const { client, sdk } = await s3();
    try {
      const head = await client.send(new sdk.HeadObjectCommand(target(key)));
      return { size: head.ContentLength ?? 0 };
    } catch (error) {
      if (isAbsence(error)) return null;
      throw explain(error);
    }
  };

  const readFile = async (key: string, range?: ByteRange): Promise<OpenFile> => {
    const where = target(key);
    if (range) assertRange(range);
    const { client, sdk } = await s3();
    try {
      const Range = range ? { Range: `bytes=${range.start}-${range.end ?? ''}` } : {};
      const object = await client.send(new sdk.GetObjectCommand({ ...where, ...Range }));
      if (!(object.Body instanceof Readable)) throw unavailable();
      const size = object.ContentLength ?? 0;
      return { stream: object.Body, size, totalSize: range ? totalOf(object.ContentRange) : size };
    } catch (error) {
      if (nameOf(error) === 'InvalidRange') throw outside();
      throw isAbsence(error) ? notFound('File') : explain(error);
    }
  };

  return {
    async write(key, source, { contentType, maxBytes, signal } = {}) {
      const meter = createMeter(maxBytes);
      try {
        const params = { ...target(key), Body: meter.stream, ...(contentType ? { ContentType: contentType } : {}) };
        const { client, Upload } = await s3();
        // At most four parts of 8 MiB are in memory. A failure aborts the upload and drops its parts.
        const upload = new Upload({ client, params, queueSize: 4, partSize: 8 * 1024 * 1024 });
        const feed = pipeline(source, meter.stream, { signal });
        const [fed, sent] = await Promise.allSettled([feed, upload.done()]);
        if (fed.status === 'rejected' && !meter.stream.writableFinished) throw fed.reason;
        if (sent.status === 'rejected') throw sent.reason;
        return meter.result();
      } catch (error) {
        source.destroy();
        meter.stream.destroy();
        throw explain(error);
      }
    },

    read: readFile,

    async readPart(key, range) {
      const { stream } = await readFile(key, range);
      try {
        return await buffer(stream);
      } catch (error) {
        throw explain(error);
      }
    },

    stat: statFile,

    async remove(key) {
      const where = target(key);
      const { client, sdk } = await s3();
      try {
        await client.send(new sdk.DeleteObjectCommand(where));
      } catch (error) {
        if (!isAbsence(error)) throw explain(error);
      }
    },

    async *list(start): AsyncGenerator<ListedFile> {
      if (start !== '') assertKey(start.replace(/\/$/, ''));
      const { client, sdk } = await s3();
      try {
        const pages = sdk.paginateListObjectsV2({ client }, { Bucket: bucket, Prefix: prefix + start });
        for await (const page of pages) {
          for (const { Key, Size, LastModified } of page.Contents ?? []) {
            if (!Key) continue;
            yield { key: Key.slice(prefix.length), size: Size ?? 0, modifiedAt: LastModified ?? new Date(0) };
          }
        }
      } catch (error) {
        throw explain(error);
      }
    },

    async signedUrl(key, { filename, expiresInSeconds }) {
      const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
      const { client, sdk } = await s3();
      const command = new sdk.GetObjectCommand({
        ...target(key),
        ResponseContentType: 'application/octet-stream',
        ResponseContentDisposition: `attachment; filename*=UTF-8''${encodeURIComponent(filename)}`,
      });
      return getSignedUrl(client, command, { expiresIn: expiresInSeconds });
    },

    async ready() {
      const { client, sdk } = await s3();
      try {
        await client.send(new sdk.HeadBucketCommand({ Bucket: bucket }));
      } catch (error) {
        throw explain(error);
      }
    },

    /** An interrupted upload is not visible. The sweep removes its parts. */
    removeDraftsOf: async () => undefined,

    /** Parts of incomplete uploads cost money until they are aborted. */
    async sweepTemporary(olderThanMs) {
      const { client, sdk } = await s3();
      const limit = Date.now() - olderThanMs;
      let removed = 0;
      try {
        const found = await client.send(
          new sdk.ListMultipartUploadsCommand({ Bucket: bucket, ...(prefix ? { Prefix: prefix } : {}) }),
        );
        for (const { Key, UploadId, Initiated } of found.Uploads ?? []) {
          if (!Key || !UploadId || !Initiated || Initiated.getTime() > limit) continue;
          await client.send(new sdk.AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId }));
          removed++;
        }
      } catch (error) {
        // Not every store can list uploads. Such a store expires them itself.
        if (!isUnsupported(error)) throw explain(error);
      }
      return removed;
    },

    async close() {
      if (!opened) return;
      (await opened).client.destroy();
    },
  };
};

/** Returns the size of the whole object. Its store must have understood the range. */
const totalOf = (contentRange = ''): number => {
  const total = /^bytes \d+-\d+\/(\d+)$/.exec(contentRange)?.[1];
  if (total === undefined) throw unavailable();
  return Number(total);
};

/** Loaded on first use: the SDK is large, and most hubs store files locally. */
const connect = async () => {
  const [sdk, { Upload }] = await Promise.all([import('@aws-sdk/client-s3'), import('@aws-sdk/lib-storage')]);
  const { AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL } = process.env;
  const ownEndpoint = Boolean(AWS_ENDPOINT_URL_S3 || AWS_ENDPOINT_URL);
  const client: S3Client = new sdk.S3Client({
    region: AWS_REGION || AWS_DEFAULT_REGION || 'us-east-1',
    // Other stores often lack a host name per bucket and the newest checksums.
    ...(ownEndpoint
      ? {
          forcePathStyle: true,
          requestChecksumCalculation: 'WHEN_REQUIRED',
          responseChecksumValidation: 'WHEN_REQUIRED',
        }
      : {}),
  });
  return { sdk, Upload, client };
};

const nameOf = (error: unknown) => (error instanceof Error ? error.name : '');
const isAbsence = (error: unknown) => nameOf(error) === 'NoSuchKey' || nameOf(error) === 'NotFound';
const isUnsupported = (error: unknown) => nameOf(error) === 'NotImplemented' || nameOf(error) === 'MethodNotAllowed';
const FULL = new Set(['XMinioStorageFull', 'QuotaExceeded', 'InsufficientStorage', 'ServiceQuotaExceeded']);

const unavailable = () =>
  new DomainError('unavailable', 'The object storage cannot be reached', { retryAfterSeconds: 5 });

const explain = (error: unknown): unknown => {
  if (error instanceof DomainError) return error;
  if (nameOf(error) === 'AbortError') return error;
  if (FULL.has(nameOf(error))) {
    return withCause(new DomainError('no_space', 'There is no space left to store the file'), error);
  }
  const known = toStorageError(error);
  return known === error && isFromStore(error) ? withCause(unavailable(), error) : known;
};

/** The SDK marks its own errors, so errors of the caller's source are not attributed to the store. */
const isFromStore = (error: unknown) =>
  error instanceof Error &&
  ('$metadata' in error ||
    '$fault' in error ||
    error.name === 'TimeoutError' ||
    error.name === 'CredentialsProviderError' ||
    NETWORK.has(String('code' in error ? error.code : '')));

const NETWORK = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ETIMEDOUT', 'EPIPE']);
