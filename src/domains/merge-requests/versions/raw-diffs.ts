import { Readable } from 'node:stream';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { quoteName } from '#platform/git/quoted-names.ts';
import type { MergeRequestRow } from '../queries.ts';
import { type DiffFileRow, diffsByMergeRequestIds, listDiffFiles } from './queries.ts';

const FILES_AT_ONCE = 20;

/**
 * Returns a function that streams the changes of the newest version as text: from the repository, or the stored files if
 * it lacks the commits. @throws DomainError as `requireAbility(read_code)`
 */
export const rawDiffText = async (
  ctx: Context,
  project: ProjectRow,
  row: Pick<MergeRequestRow, 'id'>,
): Promise<() => Readable> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const path = project.disk_path;
  const version = (await diffsByMergeRequestIds(ctx, [row.id])).get(row.id);
  const { base_commit_sha: base = null, head_commit_sha: head = null } = version ?? {};
  if (base === null || head === null) return () => Readable.from(storedText(ctx, row), { objectMode: false });
  const commits = await git.readCommits(path, [base, head]);
  return commits.length === 2
    ? () => git.diffText(path, base, head, { signal: ctx.signal })
    : () => Readable.from(storedText(ctx, row), { objectMode: false });
};

async function* storedText(ctx: Context, row: Pick<MergeRequestRow, 'id'>): AsyncGenerator<Buffer> {
  const files = listDiffFiles(ctx, row);
  for (let last: DiffFileRow | undefined; ; ) {
    const some = await files.rows({ limit: FILES_AT_ONCE, after: last ? files.cursorOf(last) : null });
    for (const file of some) yield Buffer.from(textOf(file));
    last = some.at(-1);
    if (some.length < FILES_AT_ONCE) return;
  }
}

const textOf = (file: DiffFileRow): string => {
  const [old_path, new_path] = [quoteName(file.old_path), quoteName(file.new_path)];
  const lines = [`diff --git ${quoteName(`a/${file.old_path}`)} ${quoteName(`b/${file.new_path}`)}`];
  if (file.new_file) lines.push(`new file mode ${file.b_mode}`);
  if (file.deleted_file) lines.push(`deleted file mode ${file.a_mode}`);
  if (file.renamed_file) lines.push(`rename from ${old_path}`, `rename to ${new_path}`);
  return `${lines.join('\n')}\n${withFileNames(file, quoteName)}`;
};

/** Adds the two lines that name the files if the stored patch lacks them. `shown` may quote a name. */
export const withFileNames = (
  file: Pick<DiffFileRow, 'diff' | 'new_file' | 'old_path' | 'deleted_file' | 'new_path'>,
  shown = (name: string): string => name,
): string => {
  if (!file.diff.startsWith('@@')) return file.diff;
  const from = file.new_file ? '/dev/null' : shown(`a/${file.old_path}`);
  const to = file.deleted_file ? '/dev/null' : shown(`b/${file.new_path}`);
  return `--- ${from}\n+++ ${to}\n${file.diff}`;
};
