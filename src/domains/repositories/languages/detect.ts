import type { Context } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';
import type { FileEntry } from '#platform/git/objects.ts';
import { ATTRIBUTES, fewest, holdsAttributes, readSaid } from './attributes.ts';
import { loadCatalogue } from './catalogue.ts';
import { Tally } from './tally.ts';

/** Further files are ignored. By then the shares are clear. */
const MAX_FILES = 100_000;
const BEGINNING_BYTES = 256;
const TIMEOUT_MS = 5 * 60_000;
/** Reasonable patterns take less than a second. A pattern with several `**` can take git forever. */
const ATTRIBUTES_TIMEOUT_MS = 10_000;

/** Returns the bytes per language in the files of a commit, largest first. */
export const detectLanguagesOf = async (
  ctx: Pick<Context, 'services' | 'signal'>,
  path: string,
  commitOid: string,
): Promise<ReadonlyMap<string, number>> => {
  const { git } = ctx.services;
  const tally = new Tally(await loadCatalogue());
  const options = { signal: ctx.signal, timeoutMs: TIMEOUT_MS };
  const files: FileEntry[] = [];
  for await (const file of git.allFiles(path, commitOid, options)) {
    files.push(file);
    if (files.length >= MAX_FILES) break;
  }
  const said = await saidOf(ctx, path, files);
  for (const file of files) {
    const values = said.get(file.path);
    tally.add(file, values && readSaid(values));
  }
  for (const script of tally.scripts) {
    ctx.signal.throwIfAborted();
    const beginning = await git.readBeginning(path, script.oid, BEGINNING_BYTES);
    if (beginning === null) throw new GitError('failed', 'A file of the repository cannot be read');
    tally.addScript(script, beginning.toString('latin1'));
  }
  return tally.result();
};

type SaidOf = Awaited<ReturnType<Context['services']['git']['attributesOf']>>;

/** Reads `.gitattributes`. If that takes too long, returns nothing, so that it does not block workers. */
const saidOf = async (
  { services: { git, log }, signal }: Pick<Context, 'services' | 'signal'>,
  path: string,
  files: readonly FileEntry[],
): Promise<SaidOf> => {
  const paths = files.map((file) => file.path);
  const asked = { files: fewest(files.filter(holdsAttributes)), names: ATTRIBUTES, paths };
  try {
    return await git.attributesOf(path, asked, { signal, timeoutMs: ATTRIBUTES_TIMEOUT_MS });
  } catch (error) {
    if (!(error instanceof GitError) || error.reason !== 'timeout') throw error;
    log.warn({ path }, 'the attributes of a repository take too long to read; detecting its languages without them');
    return new Map();
  }
};
