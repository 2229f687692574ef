import type { Context } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';
import type { FileEntry } from '#platform/git/types.ts';
import { ATTRIBUTES, fewest, holdsAttributes, readSaid } from './attributes.ts';
import { loadCatalogue } from './catalogue.ts';
import { Tally } from './tally.ts';

/** More is not looked at: by then it is clear what a repository is written in. */
const MAX_FILES = 100_000;
const BEGINNING_BYTES = 256;
const TIMEOUT_MS = 5 * 60_000;
/** Honest patterns take less than a second; of a few `**` in one, git tries more ways than it can ever end with. */
const ATTRIBUTES_TIMEOUT_MS = 10_000;

/** The bytes of each language in the files of a commit, the most first. */
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

/** Where it takes too long to find out, nothing is said: it keeps workers from what others wait for. */
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
    log.warn({ path }, 'the attributes of a repository take too long to read; its languages are told without them');
    return new Map();
  }
};
