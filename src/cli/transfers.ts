import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type Api, ApiError, GIVE_UP_MS, UnreachableError } from './api.ts';
import {
  CurrentUserDocument,
  ExportStatusDocument,
  FollowExportDocument,
  FollowImportDocument,
  ImportStatusDocument,
  RetryImportDocument,
  StartExportDocument,
} from './operations/generated.ts';
import { formatBytes, formatDuration, type Step } from './progress.ts';

/**
 * Exports the project, shows its progress, and saves the archive. Waits for a hub that starts again meanwhile.
 * @throws ApiError when the export failed
 */
export const exportProject = async (
  api: Api,
  fullPath: string,
  file: string,
  step: Step,
): Promise<{ readonly size: number }> => {
  // A download that was interrupted goes on, unless the export has changed since.
  const isInterrupted = (await stat(`${file}.part.etag`).catch(() => null)) !== null;
  const before = isInterrupted ? await readExport(api, fullPath) : null;
  if (before?.status === 'FINISHED') return save(api, fullPath, file, before.size, step);
  await api.graphql(StartExportDocument, { projectPath: fullPath });
  const { status, size, error } = await follow(
    {
      read: () => readExport(api, fullPath),
      hasEnded: ({ status }) => status === 'FINISHED' || status === 'NONE',
      updates: (signal) => api.subscribe(FollowExportDocument, { fullPath }, signal),
      updateOf: ({ projectExportUpdated }) => projectExportUpdated,
    },
    step,
  );
  if (error) throw new ApiError(`the export failed: ${error}`);
  if (status !== 'FINISHED') throw new ApiError(`the export is ${status}`);
  return save(api, fullPath, file, size, step);
};

const readExport = async (api: Api, fullPath: string) => {
  const { project } = await api.graphql(ExportStatusDocument, { fullPath });
  if (!project?.export) throw new ApiError(`${fullPath} is not there, or you may not export it`);
  return project.export;
};

const save = async (
  api: Api,
  fullPath: string,
  file: string,
  expected: unknown,
  step: Step,
): Promise<{ readonly size: number }> => {
  const onBytes = bytesOf('downloaded', Number(expected), step);
  await api.download(`/projects/${encodeURIComponent(fullPath)}/export/download`, file, onBytes);
  const { size } = await stat(file);
  if (String(size) !== expected) throw new ApiError(`received ${size} of ${String(expected)} bytes`);
  return { size };
};

export interface ImportResult {
  readonly fullPath: string;
  /** Top-level items that were imported. */
  readonly items: number;
  readonly failures: readonly { readonly relation: string; readonly line: number; readonly message: string }[];
}

const importRecord = z.object({ path_with_namespace: z.string() });

/**
 * Imports the archive as a new project and shows its progress. Waits for a hub that starts again meanwhile.
 * @throws ApiError when the import failed
 */
export const importProject = async (
  api: Api,
  file: string,
  { path, namespace }: { readonly path: string; readonly namespace: string | null },
  step: Step,
): Promise<ImportResult> => {
  const fullPath = (await resumed(api, file, path, namespace)) ?? (await upload(api, file, path, namespace, step));
  const { status, error, relations, failedRelations } = await follow(
    {
      read: () => readImport(api, fullPath),
      hasEnded: ({ status }) => hasEnded(status),
      updates: (signal) => api.subscribe(FollowImportDocument, { fullPath }, signal),
      updateOf: ({ projectImportUpdated }) => projectImportUpdated,
    },
    step,
  );
  if (status !== 'FINISHED') throw new ApiError(`the import is ${status}: ${error ?? 'no reason given'}`);
  await rm(markOf(file), { force: true });
  return {
    fullPath,
    items: relations.reduce((sum, { done }) => sum + done, 0),
    failures: (failedRelations?.nodes ?? []).flatMap((node) =>
      node ? [{ relation: node.relationName, line: node.lineNumber, message: node.exceptionMessage }] : [],
    ),
  };
};

const upload = async (api: Api, file: string, path: string, namespace: string | null, step: Step): Promise<string> => {
  const fields = { path, ...(namespace === null ? {} : { namespace }) };
  const state = await stateOf(api, file);
  const { path_with_namespace: fullPath } = await api.upload(
    importRecord,
    '/projects/import',
    file,
    fields,
    bytesOf('uploaded', state.size, step),
  );
  const { project } = await api.graphql(ImportStatusDocument, { fullPath });
  // In a folder that is read-only, the import works all the same, but a later run cannot continue it.
  await writeFile(markOf(file), JSON.stringify({ ...state, project: project?.id })).catch(() => undefined);
  return fullPath;
};

/** A file beside the archive says which import an earlier run of the command has started from it. */
const markOf = (file: string): string => `${file}.import`;

/** The hub that an archive was sent to, and what changes with its content. */
const stateOf = async (api: Api, file: string) => {
  const { size, mtimeMs } = await stat(file);
  return { hub: api.url, size, mtimeMs };
};

/** Returns the id of the project that was created from this very file. Null if there is none. */
const projectFrom = async (api: Api, file: string): Promise<string | null> => {
  const state = await stateOf(api, file);
  const mark = storedMark.safeParse(await readFile(markOf(file), 'utf8').catch(() => '')).data;
  const isSame = mark && mark.hub === state.hub && mark.size === state.size && mark.mtimeMs === state.mtimeMs;
  return isSame ? mark.project : null;
};

const storedMark = z
  .string()
  .transform((text, { addIssue }): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      addIssue('is not JSON');
      return z.NEVER;
    }
  })
  .pipe(z.object({ hub: z.string(), size: z.number(), mtimeMs: z.number(), project: z.string() }));

/**
 * Returns the full path of the project if an earlier run of the command has started its import from this file. Retries
 * that import if it has failed and can be retried.
 */
const resumed = async (api: Api, file: string, path: string, namespace: string | null): Promise<string | null> => {
  const projectId = await projectFrom(api, file);
  if (projectId === null) return null;
  const { currentUser } = await api.graphql(CurrentUserDocument, {});
  const fullPath = `${namespace ?? currentUser?.username ?? ''}/${path}`;
  const { project } = await api.graphql(ImportStatusDocument, { fullPath });
  if (!project || project.id !== projectId) return null;
  const status = project.import?.status;
  if (status === 'SCHEDULED' || status === 'STARTED') return fullPath;
  if (status !== 'FAILED') return null;
  await api.graphql(RetryImportDocument, { projectPath: fullPath });
  return fullPath;
};

interface Update {
  readonly status: string;
  readonly progress: number;
  readonly relations: readonly RelationCount[];
  readonly error?: string | null;
}

interface Followed<State, Data> {
  read(): Promise<State>;
  hasEnded(state: State): boolean;
  updates(signal: AbortSignal): Promise<AsyncIterable<Data>>;
  updateOf(data: Data): Update | null | undefined;
}

/**
 * Shows the progress of a transfer until it has ended, and returns its last state. If the hub goes away, connects again
 * for two minutes: a hub that has started again continues its transfers.
 * @throws ApiError
 */
const follow = async <State, Data>(
  { read, hasEnded: isOver, updates, updateOf }: Followed<State, Data>,
  step: Step,
): Promise<State> => {
  let lostAt: number | null = null;
  const pace = new Pace();
  for (;;) {
    const abort = new AbortController();
    try {
      const stream = await updates(abort.signal);
      // The transfer may have ended before the subscription started.
      const state = await read();
      if (isOver(state)) return state;
      lostAt = null;
      for await (const data of stream) {
        const update = updateOf(data);
        if (!update) continue;
        step.progress(update.progress, [detailOf(update.relations), pace.of(update)].filter(Boolean).join(', '));
        if (!hasEnded(update.status) && !update.error) continue;
        // The event may be that of an earlier transfer, so the hub is asked too.
        const now = await read();
        if (isOver(now)) return now;
      }
    } catch (error) {
      lostAt ??= performance.now();
      if (!(error instanceof UnreachableError) || performance.now() - lostAt > GIVE_UP_MS) throw error;
    } finally {
      abort.abort();
    }
    await sleep(RETRY_MS);
  }
};

const RETRY_MS = 500;

const hasEnded = (status: string): boolean => status === 'FINISHED' || status === 'FAILED';

const readImport = async (api: Api, fullPath: string) => {
  const { project } = await api.graphql(ImportStatusDocument, { fullPath });
  if (!project?.import) throw new ApiError(`${fullPath} has no import`);
  return project.import;
};

interface RelationCount {
  readonly name: string;
  readonly done: number;
  readonly total: number;
}

const detailOf = (relations: readonly RelationCount[]): string => {
  const current = relations.find(({ done, total }) => done < total);
  return current ? `${current.name} ${current.done} of ${current.total}` : '';
};

/** Shows how much of a file has passed, beside the progress of the transfer itself. */
const bytesOf =
  (what: string, size: number, step: Step) =>
  (bytes: number): void =>
    step.progress(null, `${what} ${formatBytes(Math.min(bytes, size))} of ${formatBytes(size)}`);

/** The items a second and the remaining time, as they follow from what has been done since the first update. */
export class Pace {
  #first: { readonly at: number; readonly progress: number; readonly items: number } | null = null;

  /** Returns an empty text while it is too early to tell. */
  of({ progress, relations }: Pick<Update, 'progress' | 'relations'>, now: number = performance.now()): string {
    const items = relations.reduce((sum, { done }) => sum + done, 0);
    this.#first ??= { at: now, progress, items };
    const first = this.#first;
    const elapsedMs = now - first.at;
    const gained = progress - first.progress;
    if (elapsedMs < MIN_PACE_MS || gained <= 0 || progress >= 100) return '';
    const rate = Math.round(((items - first.items) * 1_000) / elapsedMs);
    return `${rate}/s, ${formatDuration((elapsedMs * (100 - progress)) / gained)} left`;
  }
}

const MIN_PACE_MS = 1_000;
