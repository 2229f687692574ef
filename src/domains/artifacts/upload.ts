import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { z } from 'zod';
import { replaceDotenvVariables } from '#domains/ci/dotenv-variables.ts';
import { type EventScopeColumns, eventScope, SCOPE_COLUMNS } from '#domains/ci/payloads.ts';
import { ARTIFACT_ACCESSES } from '#domains/ci-config/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { DomainError, forbidden } from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';
import { claimKeys, dropKeys, reserveKeys } from '#platform/storage/removals.ts';
import { isoTime } from '#platform/time.ts';
import { type ArchiveIndex, indexArchive } from './archive.ts';
import { artifactCreated } from './events.ts';
import { secondsToExpiry } from './expiry.ts';
import { maxArtifactBytes } from './limits.ts';
import { artifactFolder, type FileFormat, type FileType, formatOf } from './model.ts';
import { readDotenv } from './reports/dotenv.ts';
import { ReportProblem, unpackedReport } from './reports/gzip.ts';
import { type ReportSummary, summarizeJunit } from './test-reports.ts';

export interface UploadRequest {
  readonly job_id: number;
  /** The token of the job. */
  readonly token: string;
  readonly file_type: FileType;
  readonly file_format: FileFormat;
  /** As the job says it: `1 week`, `never`. Absent: the setting. */
  readonly expire_in?: string | undefined;
}

/** A received file, stored under the key that `placeArtifact` gave it. */
export interface SentArtifact {
  readonly key: string;
  readonly size: number;
  readonly sha256: string;
  readonly filename: string;
  keep(): void;
}

const TOO_LARGE = 'file size has reached maximum size limit';
const MAX_FILENAME = 255;
/** `readDotenv` has a lower limit, with a message of its own. */
const MAX_DOTENV_BYTES = 1024 * 1024;

/**
 * Decides whether the runner of a job may upload an artifact, before it arrives: where it is stored, and how large it
 * may be in bytes. The key is listed for removal until `storeArtifact` claims it.
 *
 * @throws DomainError `forbidden` if the token is not that of the job, or the job has ended; `bad_request` for a format
 *   that the type does not have; `parameters` for a wrong expiry
 */
export const placeArtifact = async (ctx: Context, request: UploadRequest) => {
  const { file_type, file_format, expire_in } = request;
  const { project_id } = await ctx.transaction((tx) => lockJob(tx, request));
  if (formatOf(file_type) !== file_format) {
    throw new DomainError('bad_request', 'Invalid file format with specified file type');
  }
  secondsToExpiry(expire_in, (await getSettings(ctx)).default_artifacts_expire_in);
  const key = `${artifactFolder(project_id, request.job_id)}/${randomUUID()}`;
  await reserveKeys(ctx, keysOf({ key }));
  const maxBytes = await maxArtifactBytes(ctx, project_id, file_type);
  return { key, maxBytes, tooLarge: new DomainError('too_large', TOO_LARGE) };
};

/** An archive has an index beside it. */
const keysOf = ({ key }: Pick<SentArtifact, 'key'>): readonly string[] => [key, `${key}.index`];

/**
 * Stores an artifact of a running job. Repeating the upload of the same file is not an error.
 *
 * @throws DomainError as `placeArtifact`; `bad_request` if the job has another artifact of the type
 */
export const storeArtifact = async (ctx: Context, request: UploadRequest, file: SentArtifact): Promise<void> => {
  const keys = keysOf(file);
  const [, indexKey = ''] = keys;
  try {
    const content = await readContent(ctx, request.file_type, file, indexKey);
    await ctx.transaction(async (tx) => {
      const isNew = await insertArtifact(tx, request, file, content);
      if (!isNew) return;
      if (content.variables) await replaceDotenvVariables(tx, request.job_id, content.variables);
      await claimKeys(tx, content.index?.key ? keys : [file.key]);
      file.keep();
    });
  } finally {
    // Claimed files are no longer listed. All others can be removed now.
    await dropKeys(ctx, keys);
  }
};

/** The facts that are read from an arriving artifact, depending on its type. */
interface Content {
  readonly index?: ArchiveIndex;
  readonly summary?: ReportSummary;
  readonly variables?: ReadonlyMap<string, string>;
}

const readContent = async (ctx: Context, type: FileType, file: SentArtifact, indexKey: string): Promise<Content> => {
  switch (type) {
    case 'archive':
      return { index: await indexArchive(ctx, file, indexKey) };
    case 'junit':
      return { summary: await summarizeJunit(ctx, file.key) };
    case 'dotenv':
      return { variables: await readDotenvReport(ctx, file.key) };
    default:
      return {};
  }
};

const readDotenvReport = async (ctx: Context, key: string): Promise<ReadonlyMap<string, string>> => {
  const { stream } = await ctx.services.storage.read(key);
  try {
    return await readDotenv(unpackedReport(stream, MAX_DOTENV_BYTES));
  } catch (error) {
    throw error instanceof ReportProblem ? new DomainError('bad_request', 'Invalid Format') : error;
  }
};

const insertArtifact = async (
  tx: Tx,
  { job_id, token, file_type, file_format, expire_in }: UploadRequest,
  file: SentArtifact,
  { index, summary }: Content,
): Promise<boolean> => {
  const job = await lockJob(tx, { job_id, token });
  const seconds = secondsToExpiry(expire_in, (await getSettings(tx)).default_artifacts_expire_in);
  const row = await tx.db
    .insertInto('job_artifacts')
    .values({
      job_id,
      file_type,
      file_format,
      project_id: job.project_id,
      filename: nameOf(file.filename, file_type),
      size: file.size,
      sha256: file.sha256,
      storage_key: file.key,
      access: accessIn(job.options),
      expire_at: seconds === null ? null : sql<string>`now() + make_interval(secs => ${seconds})`,
      locked: job.locked,
      index_key: index?.key ?? null,
      index_paths: index?.blocks ? [...index.blocks.paths] : null,
      index_offsets: index?.blocks ? [...index.blocks.offsets] : null,
      entries: index?.entries ?? null,
      index_problem: index?.problem ?? null,
      report_summary: summary ? JSON.stringify(summary) : null,
    })
    .onConflict((conflict) => conflict.columns(['job_id', 'file_type']).doNothing())
    .returning(['id', 'job_id', 'file_type', 'file_format', 'filename', 'size', 'expire_at'])
    .executeTakeFirst();
  if (row) {
    tx.emit(artifactCreated, {
      ...eventScope(job),
      subject: { type: 'Ci::JobArtifact', id: row.id },
      payload: { ...row, expire_at: isoTime(row.expire_at) },
    });
    return true;
  }
  const present = await tx.db
    .selectFrom('job_artifacts')
    .select('sha256')
    .where('job_id', '=', job_id)
    .where('file_type', '=', file_type)
    .executeTakeFirst();
  if (present?.sha256 === file.sha256) return false;
  throw new DomainError('bad_request', 'another artifact of the same type already exists');
};

interface LockedJob extends EventScopeColumns {
  readonly options: unknown;
  readonly locked: boolean;
}

/**
 * Returns the job if it is running, has this token, and its user is not blocked. Until the transaction ends the job
 * cannot end, and its pipeline cannot be unlocked.
 *
 * @throws DomainError `forbidden`
 */
const lockJob = async (tx: Tx, { job_id, token }: Pick<UploadRequest, 'job_id' | 'token'>): Promise<LockedJob> => {
  const { rows } = await sql<LockedJob>`
    select j.project_id, j.options, pipeline.locked, ${SCOPE_COLUMNS}
    from jobs j join pipelines pipeline on pipeline.id = j.pipeline_id
      join projects p on p.id = j.project_id join namespaces n on n.id = p.namespace_id
    where j.id = ${job_id} and j.token_digest = ${digestToken(token)} and j.status in ('running', 'canceling')
      and not exists (select from users u where u.id = j.user_id and u.state <> 'active')
    for share of pipeline, j`.execute(tx.db);
  const [job] = rows;
  if (!job) throw forbidden('Job is not processing on runner');
  return job;
};

/** The access that the CI file gives artifacts. */
const options = z.object({ artifacts: z.object({ access: z.enum(ARTIFACT_ACCESSES) }).nullish() });

const accessIn = (stored: unknown) => options.safeParse(stored).data?.artifacts?.access ?? 'all';

const nameOf = (sent: string, type: FileType): string => {
  const name = sent
    .toWellFormed()
    .replace(/[\p{Cc}/\\]/gu, '_')
    .slice(0, MAX_FILENAME);
  return name === '' || /^\.+$/.test(name) ? `${type}.${formatOf(type)}` : name;
};
