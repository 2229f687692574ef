import type { ProjectRow } from '#domains/projects/queries.ts';
import { outboundPolicy } from '#domains/settings/outbound.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, invalid } from '#platform/errors.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';
import { checkImport, createImport, type ImportOptions } from './commands.ts';
import { checkHeaders, remoteSizeLimit } from './downloading/headers.ts';
import { type ArchiveSource, requestUrl, type S3Object, sealSource } from './downloading/source.ts';

/**
 * Schedules the import of an archive behind a URL or in a bucket (specification 1 §4.1). Asks the server for the
 * headers of the file first, so that the caller learns at once what is wrong. A job downloads it.
 *
 * @throws DomainError as `scheduleImport`, also `invalid` for a refused address or file, `too_many_requests`
 */
export const scheduleRemoteImport = async (
  ctx: Context,
  source: ArchiveSource,
  options: ImportOptions,
): Promise<ProjectRow> => {
  if (!(await getSettings(ctx)).import_project_from_remote_file)
    throw forbidden('imports of remote archives are turned off on this instance');
  if ('s3' in source) checkObject(source.s3);
  const checked = await checkImport(ctx, placed(options));
  await checkFile(ctx, source);
  return createImport(ctx, checked, { source_url: sealSource(ctx, source) });
};

/** Without a namespace, the path may be the full path of the new project. */
const placed = (options: ImportOptions): ImportOptions => {
  const at = options.path.lastIndexOf('/');
  if (at <= 0 || (options.namespace !== undefined && options.namespace !== null)) return options;
  return { ...options, path: options.path.slice(at + 1), namespace: { path: options.path.slice(0, at) } };
};

/** These become parts of a host name, so their characters must not lead to another host. */
const checkObject = ({ region, bucket_name }: S3Object): void => {
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(region))
    throw invalid({ region: ['must contain only lowercase letters, digits and hyphens'] });
  if (!/^[a-z0-9](?:[a-z0-9-]|\.(?!\.)){1,61}[a-z0-9]$/.test(bucket_name))
    throw invalid({ bucket_name: ['must be a bucket name: 3 to 63 lowercase letters, digits, hyphens and dots'] });
};

const HEAD_TIMEOUT_MS = 10_000;
const MAX_REDIRECTS = 3;
/** Servers that cannot answer HEAD, and URLs that are signed for GET alone. Their download is checked instead. */
const NO_HEAD = new Set([401, 403, 405, 501]);

const checkFile = async (ctx: Context, source: ArchiveSource): Promise<void> => {
  const refuse = (problem: string) => invalid({ ['url' in source ? 'url' : 'file_key']: [problem] });
  try {
    const { status, headers } = await ctx.services.http.request({
      url: await requestUrl(source, 'HEAD'),
      method: 'HEAD',
      headers: { 'accept-encoding': 'identity' },
      policy: await outboundPolicy(ctx),
      followRedirects: { max: MAX_REDIRECTS },
      timeoutMs: HEAD_TIMEOUT_MS,
      maxResponseBytes: 0,
      signal: ctx.signal,
    });
    if ('url' in source && NO_HEAD.has(status)) return;
    if (status !== 200) throw refuse(`The server answered ${status}`);
    const checked = checkHeaders(headers, source, remoteSizeLimit(await getSettings(ctx)));
    if ('problem' in checked) throw refuse(checked.problem);
  } catch (error) {
    if (!(error instanceof OutboundError) || error.kind === 'aborted') throw error;
    throw refuse(error.message);
  }
};
