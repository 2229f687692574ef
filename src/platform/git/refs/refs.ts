import { GitError } from '../git-error.ts';
import type { ObjectReader } from '../objects/reader.ts';
import type { Runner } from '../process/runner.ts';
import { requireOids, validFullRef, validOid, validRefName, ZERO_OID } from '../ref-names.ts';
import type { ListRefsOptions, Ref, RefChange, RevisionStep } from '../refs.ts';
import type { Git } from '../types.ts';
import { hasRefFile, readRefFile, readRefFiles } from './files.ts';
import type { RefWriter } from './writer.ts';

type RefFunctions = Pick<
  Git,
  | 'head'
  | 'setHead'
  | 'isEmpty'
  | 'listRefs'
  | 'refValues'
  | 'existingRefs'
  | 'resolve'
  | 'resolveCommit'
  | 'commitBefore'
  | 'updateRefs'
>;

/** From this number on, one process lists all refs. Fewer refs are resolved one by one. */
const MANY_REFS = 10;
const ABBREVIATED = /^[0-9a-f]{7,64}$/;

export const createRefs = (runner: Runner, objects: ObjectReader, writer: RefWriter): RefFunctions => {
  const commitAt = async (path: string, name: string): Promise<string | null> =>
    (await objects.read(path, 'info', `${name}^{commit}`))?.oid ?? null;

  /** Before git 2.45, `for-each-ref` only resolves one tag. This resolves a tag of a tag. */
  const peeledToTheEnd = async (path: string, { peeledType, ...ref }: TagRecord): Promise<Ref> => {
    if (peeledType !== 'tag') return ref;
    const behind = await objects.read(path, 'info', `${ref.oid}^{}`);
    return behind ? { ...ref, peeledOid: behind.oid } : ref;
  };

  const resolve: RefFunctions['resolve'] = async (path, ref) => {
    if (!validFullRef(ref)) return null;
    const found = await objects.read(path, 'info', ref);
    if (found) return found.oid;
    // Usually the ref does not exist, but a ref whose object is missing still counts.
    const value = await readRefFile(runner.directory(path), ref);
    if (value !== undefined) return value;
    // `--verify` accepts only full names, so git does not guess.
    const { stdout } = await runner.run(path, ['show-ref', '--verify', '--hash', '--', ref], { allow: [1, 128] });
    return stdout.toString('latin1').trim() || null;
  };

  const refValues: RefFunctions['refValues'] = async (path, names) => {
    const wanted = new Set(names);
    const values = new Map<string, string>();
    if (wanted.size < MANY_REFS) {
      for (const name of wanted) {
        const oid = await resolve(path, name);
        if (oid !== null) values.set(name, oid);
      }
      return values;
    }
    const { stdout } = await runner.run(path, ['for-each-ref', `--format=${PLAIN_FIELDS}`]);
    for (const { name, oid } of plainRecords(stdout)) if (wanted.has(name)) values.set(name, oid);
    return values;
  };

  return {
    async head(path) {
      const { stdout, exitCode } = await runner.run(path, ['symbolic-ref', '--quiet', 'HEAD'], { allow: [1] });
      const ref = stdout.toString('utf8').trim();
      return exitCode === 0 && ref.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : null;
    },

    async setHead(path, branch) {
      if (!validRefName(branch)) throw new GitError('invalid', 'The branch name is not valid');
      await runner.run(path, ['symbolic-ref', 'HEAD', `refs/heads/${branch}`]);
    },

    async isEmpty(path) {
      const args = ['for-each-ref', '--count=1', '--format=%(refname)', 'refs/heads/', 'refs/tags/'];
      return (await runner.run(path, args)).stdout.length === 0;
    },

    async listRefs(
      path,
      { prefix, order = 'name', limit = Number.POSITIVE_INFINITY, after, match, signal, timeoutMs },
    ) {
      if (!/^refs\/(?:[a-z-]+\/)?$/.test(prefix)) throw new GitError('invalid', 'The reference prefix is not valid');
      const withTags = 'refs/tags/'.startsWith(prefix);
      const args = ['for-each-ref', `--format=${withTags ? TAG_FIELDS : PLAIN_FIELDS}`, ...SORTS[order]];
      const takesAll = after === undefined && match === undefined;
      if (takesAll && Number.isFinite(limit)) args.push(`--count=${limit}`);
      const ask = async () => {
        const { stdout } = await runner.run(path, [...args, prefix], { signal, timeoutMs });
        return withTags
          ? Promise.all(tagRecords(stdout).map((ref) => peeledToTheEnd(path, ref)))
          : plainRecords(stdout);
      };
      const isRead = order === 'name' && !withTags && !signal?.aborted;
      const read = isRead ? await readRefFiles(runner.directory(path), prefix) : null;
      const all = read ?? (await ask());
      if (takesAll) return all.slice(0, limit);
      const floor = after === undefined ? null : Buffer.from(after);
      const refs: Ref[] = [];
      for (const ref of all) {
        if (refs.length >= limit) break;
        if (floor && Buffer.compare(Buffer.from(ref.name), floor) <= 0) continue;
        if (match && !match(ref.name.slice(prefix.length))) continue;
        refs.push(ref);
      }
      return refs;
    },

    resolve,

    refValues,

    async existingRefs(path, names) {
      const wanted = [...new Set(names)].filter(validFullRef);
      const directory = runner.directory(path);
      const found = new Set<string>();
      await Promise.all(wanted.map(async (name) => (await hasRefFile(directory, name)) && found.add(name)));
      const others = wanted.filter((name) => !found.has(name));
      if (others.length > 0) for (const name of (await refValues(path, others)).keys()) found.add(name);
      return found;
    },

    async resolveCommit(path, revision) {
      if (validRefName(revision)) {
        // Full names are unambiguous, because no branch or tag may be called `refs/...`.
        const oid = (await commitAt(path, `refs/heads/${revision}`)) ?? (await commitAt(path, `refs/tags/${revision}`));
        if (oid !== null) return oid;
      }
      const text = revision.toLowerCase();
      if (!ABBREVIATED.test(text)) return null;
      const oid = await commitAt(path, text);
      // git also finds refs of that name, but only an id counts.
      return oid?.startsWith(text) ? oid : null;
    },

    async commitBefore(path, oid, steps) {
      return validOid(oid) ? commitAt(path, `${oid}${steps.map(writeStep).join('')}`) : null;
    },

    async updateRefs(path, changes) {
      if (changes.length === 0) return;
      await writer.write(path, transaction(changes));
    },
  };
};

const writeStep = (step: RevisionStep): string => ('parent' in step ? `^${step.parent}` : `~${step.generations}`);

/** Builds the input of `git update-ref --stdin -z`. @throws GitError `invalid` for invalid names and ids */
export const transaction = (changes: readonly RefChange[]): string =>
  changes
    .map(({ ref, oldOid, newOid }) => {
      const oids = [oldOid, newOid].filter((oid) => typeof oid === 'string');
      if (!validFullRef(ref)) throw new GitError('invalid', 'The reference name is not valid');
      requireOids(oids);
      const old = oldOid === undefined ? '' : (oldOid ?? ZERO_OID);
      return newOid === null ? `delete ${ref}\0${old}\0` : `update ${ref}\0${newOid}\0${old}\0`;
    })
    .join('');

const SORTS: Readonly<Record<NonNullable<ListRefsOptions['order']>, readonly string[]>> = {
  name: [],
  // The last key has the highest priority.
  updated_asc: ['--sort=refname', '--sort=committerdate'],
  updated_desc: ['--sort=refname', '--sort=-committerdate'],
  created_asc: ['--sort=refname', '--sort=creatordate'],
  created_desc: ['--sort=refname', '--sort=-creatordate'],
  version_asc: ['--sort=version:refname'],
  version_desc: ['--sort=-version:refname'],
};

const PLAIN_FIELDS = '%(objectname) %(refname)';
const TAG_FIELDS = '%(refname)%00%(objectname)%00%(*objectname)%00%(objecttype)%00%(*objecttype)%00%(contents)%00';

/** Parses without splitting each line: for ten thousand refs the splitting took as long as git itself. */
const plainRecords = (output: Buffer): Ref[] => {
  const text = output.toString('utf8');
  const refs: Ref[] = [];
  const oidLength = text.indexOf(' ');
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    const oid = text.slice(at, at + oidLength);
    refs.push({ name: text.slice(at + oidLength + 1, end), oid, peeledOid: oid, message: null });
    at = end + 1;
  }
  return refs;
};

interface TagRecord extends Ref {
  /** The type of the object that an annotated tag points at. Empty for other refs. */
  readonly peeledType: string;
}

/** Messages may contain line breaks, so this counts the fields instead. */
const tagRecords = (output: Buffer): TagRecord[] => {
  const fields = output.toString('utf8').split('\0');
  const refs: TagRecord[] = [];
  for (let at = 0; at + 6 < fields.length; at += 6) {
    const [name = '', oid = '', peeled = '', type = '', peeledType = '', message = ''] = fields.slice(at, at + 6);
    const annotated = type === 'tag';
    refs.push({
      name: name.replace(/^\n/, ''),
      oid,
      peeledOid: annotated ? peeled : oid,
      peeledType,
      message: annotated ? message : null,
    });
  }
  return refs;
};
