import { Readable } from 'node:stream';
import type { Context } from '#platform/context.ts';
import type { Part } from '#rest/ranges.ts';
import type { Download } from '#rest/route.ts';
import type { ArchiveFile } from '../archive.ts';
import { directUrl } from '../direct.ts';
import type { ArtifactRow } from '../queries.ts';

/** Nothing that is downloaded is executed, whatever it holds. */
const HEADERS = { 'Content-Security-Policy': "default-src 'none'; sandbox" };

/**
 * Sends an artifact as it was uploaded. With `redirect`, and if the setting says so, the caller gets it from the object
 * storage.
 */
export const wholeFile = async (
  ctx: Context,
  artifact: ArtifactRow,
  { redirect = true }: { readonly redirect?: boolean } = {},
): Promise<Download> => ({
  location: redirect ? await directUrl(ctx, artifact) : null,
  stream: async () => (await ctx.services.storage.read(artifact.storage_key)).stream,
  part: async (part) => (await ctx.services.storage.read(artifact.storage_key, part)).stream,
  size: artifact.size,
  contentType: 'application/octet-stream',
  filename: artifact.filename,
  headers: HEADERS,
  etag: `"${artifact.sha256}"`,
});

/** Sends a file of an archive. A part of it is unpacked from its start, and what is before the part is dropped. */
export const fileOfArchive = (file: ArchiveFile, type: Pick<Download, 'contentType' | 'filename'>): Download => ({
  stream: () => file.open(),
  part: async (part) => {
    const content = await file.open();
    return Buffer.isBuffer(content)
      ? content.subarray(part.start, part.end + 1)
      : Readable.from(partOf(content, part), { objectMode: false });
  },
  size: file.size,
  headers: HEADERS,
  etag: `"${file.crc.toString(16)}-${file.size.toString(16)}"`,
  ...type,
});

async function* partOf(stream: Readable, { start, end }: Part): AsyncGenerator<Buffer> {
  let position = 0;
  for await (const chunk of stream) {
    const bytes: Buffer = chunk;
    const wanted = bytes.subarray(Math.max(0, start - position), Math.max(0, end + 1 - position));
    if (wanted.length > 0) yield wanted;
    position += bytes.length;
    if (position > end) return;
  }
}
