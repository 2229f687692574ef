import { type Insertable, sql } from 'kysely';
import { defineCache } from '#platform/cache.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { CodeOwnerRules } from '#platform/db/tables.ts';
import type { TreeEntry } from '#platform/git/objects.ts';
import { createOwnersMatcher, type OwnersMatcher } from './match.ts';
import { CODE_OWNERS_PATHS, type CodeOwnersEntry, parseCodeOwners } from './parse.ts';

/** Longer files own nothing. */
export const MAX_CODE_OWNERS_BYTES = 1024 * 1024;
const ROWS_AT_ONCE = 500;

/** The commits of a version: the tip of the target branch, the merge base, and the head. */
export interface ComparedCommits {
  readonly start: string | null;
  readonly base: string | null;
  readonly head: string | null;
}

interface MatchedFile {
  readonly matcher: OwnersMatcher;
  readonly bytes: number;
}

// Many merge requests of a project share one file.
const cachedFiles = defineCache<string, MatchedFile>({
  name: 'CODEOWNERS',
  limit: 16 * MAX_CODE_OWNERS_BYTES,
  weightOf: ({ bytes }) => bytes,
});

/**
 * Finds out who owns the files that the commits change, unless that is known already. Returns the step that stores it
 * in the transaction of the new version.
 */
export const readCodeOwnerRules = async (
  ctx: Context,
  path: string,
  mergeRequestId: number,
  compared: ComparedCommits,
): Promise<(tx: Tx) => Promise<void>> => {
  const { start, base, head } = compared;
  const file = start !== null && head !== null ? await findCodeOwners(ctx, path, start) : null;
  const source = file ? [file.oid, base, head].join(':') : '';
  const known = await ctx.db
    .selectFrom('code_owner_sources')
    .select('source')
    .where('merge_request_id', '=', mergeRequestId)
    .executeTakeFirst();
  if ((known?.source ?? '') === source) return async () => {};
  const entries = file ? await owningEntries(ctx, path, file, compared) : [];
  return (tx) => store(tx, mergeRequestId, source, entries);
};

/** Returns the id of the `CODEOWNERS` file that the rules of merge requests come from, empty for none. */
export const fileOfRules = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, string>> => {
  const rows = await db
    .selectFrom('code_owner_sources')
    .select(['merge_request_id', sql<string>`split_part(source, ':', 1)`.as('file')])
    .where(sql<boolean>`merge_request_id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map(({ merge_request_id, file }) => [merge_request_id, file]));
};

/** Returns the entries of the file that own what differs between two commits. */
export const owningEntries = async (
  ctx: Pick<Context, 'services' | 'signal'>,
  path: string,
  file: TreeEntry,
  { base, head }: Pick<ComparedCommits, 'base' | 'head'>,
): Promise<readonly CodeOwnersEntry[]> => {
  const matcher = await matcherOf(ctx, path, file.oid);
  if (!matcher || head === null) return [];
  const { entries } = await matcher.owning(ctx.services.git.changedPaths(path, base, head, { signal: ctx.signal }));
  return entries.filter(({ owners }) => owners.length > 0);
};

/** Returns the `CODEOWNERS` file of a commit, or null. */
export const findCodeOwners = async (
  { services: { git } }: Pick<Context, 'services'>,
  path: string,
  commit: string,
): Promise<TreeEntry | null> => {
  const found = await git.findFiles(path, commit, CODE_OWNERS_PATHS);
  for (const place of CODE_OWNERS_PATHS) {
    const entry = found.get(place);
    // Links are not followed.
    if (entry?.type === 'blob' && entry.mode !== '120000') return entry;
  }
  return null;
};

const matcherOf = async (
  { services }: Pick<Context, 'services'>,
  path: string,
  oid: string,
): Promise<OwnersMatcher | null> => {
  const cache = cachedFiles(services);
  const known = cache.get(oid);
  if (known) return known.matcher;
  const found = await services.git.findObject(path, oid);
  if (!found || found.size > MAX_CODE_OWNERS_BYTES) return null;
  const bytes = await services.git.readBytes(path, oid, MAX_CODE_OWNERS_BYTES);
  if (!bytes) return null;
  const matcher = createOwnersMatcher(parseCodeOwners(bytes.toString('utf8')).entries);
  cache.set(oid, { matcher, bytes: bytes.length });
  return matcher;
};

const store = async (
  tx: Tx,
  merge_request_id: number,
  source: string,
  entries: readonly CodeOwnersEntry[],
): Promise<void> => {
  await tx.db.deleteFrom('code_owner_rules').where('merge_request_id', '=', merge_request_id).execute();
  await tx.db
    .insertInto('code_owner_sources')
    .values({ merge_request_id, source })
    .onConflict((on) => on.column('merge_request_id').doUpdateSet({ source }))
    .execute();
  const rows = entries.map(
    ({ section, pattern, owners, approvals, optional }, position): Insertable<CodeOwnerRules> => ({
      merge_request_id,
      position,
      // Texts of the database may not hold all characters.
      section: withoutNul(section),
      pattern: withoutNul(pattern),
      owners: owners.map(withoutNul),
      approvals_required: approvals,
      optional,
    }),
  );
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
    await tx.db
      .insertInto('code_owner_rules')
      .values(rows.slice(at, at + ROWS_AT_ONCE))
      .execute();
  }
};

const withoutNul = (text: string): string => text.replaceAll('\0', '\uFFFD');
