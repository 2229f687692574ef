import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { ArchiveFormat } from '#platform/git/reading.ts';
import { requireRevision } from './revisions.ts';

const FORMATS: Readonly<Record<string, ArchiveFormat>> = {
  zip: 'zip',
  tar: 'tar',
  'tar.gz': 'tar.gz',
  tgz: 'tar.gz',
  gz: 'tar.gz',
  'tar.bz2': 'tar.bz2',
  tbz: 'tar.bz2',
  tbz2: 'tar.bz2',
  tb2: 'tar.bz2',
  bz2: 'tar.bz2',
};

export interface ArchiveInput {
  /** As in the URL: `zip`, `tar.gz`, `tbz` ... */
  readonly format: string;
  /** A branch, tag or commit id. Defaults to the default branch. */
  readonly sha?: string | undefined;
  /** Only this folder or file. */
  readonly path?: string | undefined;
}

export interface Archive {
  readonly filename: string;
  readonly contentType: string;
  /** All archives of one commit with one name have the same content. */
  readonly etag: string;
  /** Starts packing. @throws DomainError `too_many_requests` */
  open(): Readable;
}

/** @throws DomainError `not_found` (File) without such a revision or path, `bad_request` for an unavailable format */
export const getArchive = async (ctx: Context, project: ProjectRow, input: ArchiveInput): Promise<Archive> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const format = FORMATS[input.format];
  const available = git.archiveFormats();
  if (format === undefined || !available.includes(format)) {
    throw badRequest(`format does not have a valid value (allowed: ${available.join(', ')})`);
  }
  const commit = await requireRevision(ctx, project, input.sha, 'File');
  const folder = (input.path ?? '').replace(/^\/+|\/+$/g, '');
  if (folder !== '' && (await git.findFile(project.disk_path, commit, folder)) === null) throw notFound('File');
  const ref = input.sha || project.default_branch || 'HEAD';
  const name = [project.path, ref, commit, ...(folder === '' ? [] : [folder])]
    .map((part) => part.replaceAll('/', '-'))
    .join('-');
  const filename = `${name}.${format}`;
  return {
    filename,
    contentType: format === 'zip' ? 'application/zip' : 'application/octet-stream',
    etag: `"${createHash('sha256').update(filename).digest('base64url')}"`,
    open: () =>
      git.archive(project.disk_path, {
        commit,
        format,
        prefix: `${name}/`,
        folder: folder === '' ? undefined : folder,
        signal: ctx.signal,
      }),
  };
};
