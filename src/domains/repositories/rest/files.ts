import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { boolean, hash, idOrPath, integer, text } from '#rest/params.ts';
import { type Exchange, route, streamRoute } from '#rest/route.ts';
import {
  blameOf,
  checksumOf,
  getBlob,
  getFile,
  isExecutable,
  isLfsPointer,
  openBlob,
  type RepositoryFile,
  readWhole,
  sha256,
} from '../files.ts';

const tag = 'Repository files';

const id = idOrPath();
const file_path = text({ max: 4_096 });
const ref = text({ max: 1_000 });
const scopes = ['api', 'read_api', 'read_repository'] as const;

const fileRecord = z
  .object({
    file_name: z.string(),
    file_path: z.string(),
    size: z.int(),
    encoding: z.literal('base64'),
    content_sha256: z.string(),
    ref: z.string(),
    blob_id: z.string(),
    commit_id: z.string(),
    last_commit_id: z.string(),
    execute_filemode: z.boolean(),
    content: z.string(),
  })
  .meta({ id: 'RepositoryFile' });

const blameRecord = z
  .object({
    commit: z.object({
      id: z.string(),
      parent_ids: z.array(z.string()),
      message: z.string(),
      authored_date: z.string(),
      author_name: z.string(),
      author_email: z.string(),
      committed_date: z.string(),
      committer_name: z.string(),
      committer_email: z.string(),
    }),
    lines: z.array(z.string()),
  })
  .meta({ id: 'BlamedLines' });

/** Percent-encodes characters that a header cannot contain. */
const headerText = (value: string): string => value.toWellFormed().replace(/[^\x20-\x7e]|%/gu, encodeURIComponent);

/** Returns the headers with the facts about a file (reference: conventions §4). */
const headersOf = (file: RepositoryFile, checksum: string | null): Record<string, string> => ({
  'X-Gitlab-Blob-Id': file.blob_id,
  'X-Gitlab-Commit-Id': file.commit_id,
  ...(checksum === null ? {} : { 'X-Gitlab-Content-Sha256': checksum }),
  'X-Gitlab-Encoding': 'base64',
  'X-Gitlab-Execute-Filemode': String(isExecutable(file)),
  'X-Gitlab-File-Name': headerText(file.name),
  'X-Gitlab-File-Path': headerText(file.path),
  'X-Gitlab-Last-Commit-Id': file.last_commit_id,
  'X-Gitlab-Ref': headerText(file.ref),
  'X-Gitlab-Size': String(file.size),
});

const setFileHeaders = async (
  ctx: Context,
  project: ProjectRow,
  file: RepositoryFile,
  http: Exchange,
): Promise<void> => {
  const headers = headersOf(file, await checksumOf(ctx, project, file));
  for (const [name, value] of Object.entries(headers)) http.setHeader(name, value);
};

/** Browsers must show any file as text and never run it. */
const AS_TEXT = {
  contentType: 'text/plain',
  disposition: 'inline',
} as const;
const SANDBOX = { 'Content-Security-Policy': "default-src 'none'; sandbox" };

export const fileRoutes = [
  route({
    method: 'GET',
    path: '/projects/:id/repository/files/:file_path',
    tag,
    summary: 'Read a file, as JSON',
    description:
      'Supports files of up to 20 MiB. Returns 413 for larger ones; use `raw` for them. The headers `X-Gitlab-*` have the same data except the content. Names in them are percent-encoded if necessary.',
    auth: 'optional',
    scopes,
    input: { id, file_path, ref },
    response: fileRecord,
    run: async (ctx, { id, file_path, ref }, http) => {
      const project = await getProject(ctx, id);
      const file = await getFile(ctx, project, ref, file_path);
      const content = await readWhole(ctx, project, { oid: file.blob_id, size: file.size });
      const checksum = sha256(content);
      for (const [name, value] of Object.entries(headersOf(file, checksum))) http.setHeader(name, value);
      return {
        file_name: file.name,
        file_path: file.path,
        size: file.size,
        encoding: 'base64' as const,
        content_sha256: checksum,
        ref: file.ref,
        blob_id: file.blob_id,
        commit_id: file.commit_id,
        last_commit_id: file.last_commit_id,
        execute_filemode: isExecutable(file),
        content: content.toString('base64'),
      };
    },
  }),
  streamRoute({
    method: 'GET',
    path: '/projects/:id/repository/files/:file_path/raw',
    tag,
    summary: 'Read the raw content of a file',
    description:
      'Returns files of any size as text/plain. Files of more than 20 MiB have no checksum. With `lfs`, returns 404 for a Git LFS pointer, because the hub stores no LFS files.',
    auth: 'optional',
    scopes,
    jobTokens: true,
    input: { id, file_path, ref: ref.optional(), lfs: boolean().default(false) },
    run: async (ctx, { id, file_path, ref = 'HEAD', lfs }) => {
      const project = await getProject(ctx, id);
      const file = await getFile(ctx, project, ref, file_path);
      await limitAction(ctx, 'raw_blob_request_limit', `${project.id}:${file.commit_id}:${file.path}`);
      const blob = { oid: file.blob_id, size: file.size };
      if (lfs && (await isLfsPointer(ctx, project, blob))) throw notFound('LFS Object');
      return {
        ...AS_TEXT,
        stream: () => openBlob(ctx, project, blob),
        part: (part) => openBlob(ctx, project, blob, part),
        size: file.size,
        filename: file.name,
        etag: `"${file.blob_id}"`,
        headers: { ...SANDBOX, ...headersOf(file, await checksumOf(ctx, project, file)) },
      };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/files/:file_path/blame',
    tag,
    summary: 'Show who last changed each line of a file',
    description:
      'Supports files of up to 5 MiB. `range[start]` and `range[end]` are line numbers from 1, both included.',
    auth: 'optional',
    scopes,
    input: {
      id,
      file_path,
      ref,
      range: hash({ start: integer({ min: 1, max: 1e9 }), end: integer({ min: 1, max: 1e9 }) }).optional(),
    },
    response: z.array(blameRecord),
    run: async (ctx, { id, file_path, ref, range }, http) => {
      const project = await getProject(ctx, id);
      const file = await getFile(ctx, project, ref, file_path);
      await setFileHeaders(ctx, project, file, http);
      if (http.method === 'HEAD') return [];
      const parts = await blameOf(ctx, project, file, range);
      return parts.map(({ commit, lines }) => ({
        commit: {
          id: commit.id,
          parent_ids: [...commit.parent_ids],
          message: commit.message,
          authored_date: commit.authored_date,
          author_name: commit.author_name,
          author_email: commit.author_email,
          committed_date: commit.committed_date,
          committer_name: commit.committer_name,
          committer_email: commit.committer_email,
        },
        lines: [...lines],
      }));
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/blobs/:sha',
    tag,
    summary: 'Read a blob by its id',
    auth: 'optional',
    input: { id, sha: ref },
    response: z
      .object({ size: z.int(), encoding: z.literal('base64'), content: z.string(), sha: z.string() })
      .meta({ id: 'Blob' }),
    run: async (ctx, { id, sha }) => {
      const project = await getProject(ctx, id);
      const blob = await getBlob(ctx, project, sha);
      const content = await readWhole(ctx, project, blob);
      return { size: blob.size, encoding: 'base64' as const, content: content.toString('base64'), sha: blob.oid };
    },
  }),
  streamRoute({
    method: 'GET',
    path: '/projects/:id/repository/blobs/:sha/raw',
    tag,
    summary: 'Read the raw content of a blob by its id',
    auth: 'optional',
    input: { id, sha: ref },
    run: async (ctx, { id, sha }) => {
      const project = await getProject(ctx, id);
      const blob = await getBlob(ctx, project, sha);
      await limitAction(ctx, 'raw_blob_request_limit', `${project.id}:${blob.oid}`);
      return {
        ...AS_TEXT,
        stream: () => openBlob(ctx, project, blob),
        part: (part) => openBlob(ctx, project, blob, part),
        size: blob.size,
        etag: `"${blob.oid}"`,
        headers: SANDBOX,
      };
    },
  }),
];
