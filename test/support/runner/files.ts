import { createWriteStream } from 'node:fs';
import { glob, mkdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { gzipSync } from 'node:zlib';
import yauzl from 'yauzl';
import yazl from 'yazl';
import type { ArtifactOrder, DependencyOrder, JobOrder, Protocol, Reply } from './protocol.ts';

/** Returns the files below the folder that the patterns select. A folder stands for all that is in it. */
const selectFiles = async (
  folder: string,
  { paths, exclude = [] }: Pick<ArtifactOrder, 'paths' | 'exclude'>,
): Promise<string[]> => {
  const find = async (patterns: readonly string[]): Promise<Set<string>> => {
    const found = new Set<string>();
    for (const pattern of patterns.map((each) => each.replace(/\/$/, ''))) {
      for await (const name of glob([pattern, `${pattern}/**`], { cwd: folder })) {
        const inside = !relative(folder, join(folder, name)).startsWith('..');
        if (inside && (await stat(join(folder, name))).isFile()) found.add(name);
      }
    }
    return found;
  };
  const excluded = await find(exclude);
  return [...(await find(paths))].filter((name) => !excluded.has(name)).sort();
};

/** Makes the file that an artifact is uploaded as. Null if there is nothing to upload. */
const pack = async (folder: string, order: ArtifactOrder): Promise<{ name: string; bytes: Buffer } | null> => {
  const files = await selectFiles(folder, order);
  if (files.length === 0) return null;
  const base = order.name || 'artifacts';
  if (order.artifact_format === 'zip') {
    const zip = new yazl.ZipFile();
    for (const name of files) zip.addFile(join(folder, name), name);
    zip.end();
    return { name: `${base}.zip`, bytes: await buffer(Readable.from(zip.outputStream)) };
  }
  const contents = await Promise.all(files.map((name) => readFile(join(folder, name))));
  // One member for each file.
  if (order.artifact_format === 'gzip')
    return { name: `${base}.gz`, bytes: Buffer.concat(contents.map((each) => gzipSync(each))) };
  return { name: base, bytes: Buffer.concat(contents) };
};

const BOUNDARY = 'millrace-runner-boundary';

/** Uploads an artifact with a body of unknown length. Returns null if no file matched. */
export const upload = async (
  protocol: Protocol,
  job: JobOrder,
  folder: string,
  order: ArtifactOrder,
): Promise<Reply | null> => {
  const packed = await pack(folder, order);
  if (!packed) return null;
  const query = new URLSearchParams({ artifact_format: order.artifact_format, artifact_type: order.artifact_type });
  if (order.expire_in) query.set('expire_in', order.expire_in);
  const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="${packed.name}"\r\nContent-Type: application/octet-stream\r\n\r\n`;
  const body = () => streamOf([Buffer.from(head), packed.bytes, Buffer.from(`\r\n--${BOUNDARY}--\r\n`)]);
  return protocol.send('POST', `/jobs/${job.id}/artifacts?${query}`, body, {
    'job-token': job.token,
    'content-type': `multipart/form-data; boundary=${BOUNDARY}`,
  });
};

/** A body of unknown length, sent in chunks. */
const streamOf = (parts: readonly Buffer[]): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start: (controller) => {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

/** Downloads the archive of an earlier job and unpacks it. */
export const download = async (protocol: Protocol, { id, token }: DependencyOrder, folder: string): Promise<number> => {
  const response = await fetch(`${protocol.options.url}/api/v4/jobs/${id}/artifacts?direct_download=true`, {
    headers: { 'job-token': token },
  });
  if (response.status !== 200) return response.status;
  const zip = await new Promise<yauzl.ZipFile>((resolve, reject) => {
    response.arrayBuffer().then((bytes) => {
      yauzl.fromBuffer(Buffer.from(bytes), { lazyEntries: true }, (error, opened) =>
        error ? reject(error) : resolve(opened),
      );
    }, reject);
  });
  await new Promise<void>((resolve, reject) => {
    zip.on('error', reject);
    zip.on('end', resolve);
    zip.on('entry', (entry: yauzl.Entry) => {
      if (entry.fileName.endsWith('/')) return zip.readEntry();
      const path = join(folder, entry.fileName);
      zip.openReadStream(entry, (error, stream) => {
        if (error) return reject(error);
        mkdir(dirname(path), { recursive: true })
          .then(() => pipeline(stream, createWriteStream(path)))
          .then(() => zip.readEntry(), reject);
      });
    });
    zip.readEntry();
  });
  return 200;
};
