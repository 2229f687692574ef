import { createHash } from 'node:crypto';
import type { Cache } from '#domains/ci-config/model.ts';
import type { Context } from '#platform/context.ts';
import type { JobToRun } from './job-to-run.ts';

/** The key of a cache whose files do not exist. */
const NO_FILES = 'default';

/** The keys of a cache as the runner gets them. References to variables stay: the runner replaces them. */
export interface CacheKeys {
  readonly key: string;
  readonly fallback_keys: readonly string[];
}

/**
 * Returns the keys of a cache. Clearing the caches of a project changes all of them. Protected branches and tags have
 * caches of their own, so that others cannot plant files in them, unless the file says `unprotect`.
 */
export const cacheKeys = async (ctx: Context, run: JobToRun, cache: Cache): Promise<CacheKeys> => {
  const { key, unprotect, fallback_keys } = cache;
  const { jobs_cache_index, ci_separated_caches } = run.project;
  const cleared = jobs_cache_index === 0 ? '' : `-${jobs_cache_index}`;
  const kind = run.job.protected && !unprotect ? '-protected' : '-non_protected';
  const full = (name: string): string => `${name}${cleared}${ci_separated_caches ? kind : ''}`;
  return {
    key: full(typeof key === 'string' ? key : await keyOfFiles(ctx, run, key)),
    fallback_keys: fallback_keys.map(full),
  };
};

/** A hash of the files' contents, so that the key changes with them. */
const keyOfFiles = async (
  ctx: Context,
  { project, pipeline }: JobToRun,
  { files, prefix }: Exclude<Cache['key'], string>,
): Promise<string> => {
  const { sha } = pipeline;
  const { findFile } = ctx.services.git;
  const entries = sha === null ? [] : await Promise.all(files.map((file) => findFile(project.disk_path, sha, file)));
  const found = entries.filter((entry) => entry !== null);
  const hash = createHash('sha1');
  for (const { oid } of found) hash.update(`${oid}\n`);
  const digest = found.length === 0 ? NO_FILES : hash.digest('hex');
  return prefix === null ? digest : `${prefix}-${digest}`;
};
