import { GitError } from './git-error.ts';
import type { ObjectReader } from './object-reader.ts';
import type { Runner } from './process.ts';
import { validFullRef, validOid, validRefName } from './ref-names.ts';
import type { Git, Ref, RefChange } from './types.ts';

type RefFunctions = Pick<
  Git,
  'head' | 'setHead' | 'isEmpty' | 'listRefs' | 'resolve' | 'resolveCommit' | 'updateRefs' | 'mergedInto' | 'isAncestor'
>;

/** More names than this are not passed as arguments. */
const MAX_PATTERNS = 200;
const ABBREVIATED = /^[0-9a-f]{7,64}$/;

export const createRefs = (runner: Runner, objects: ObjectReader): RefFunctions => {
  const commitAt = async (path: string, name: string): Promise<string | null> =>
    (await objects.read(path, 'info', `${name}^{commit}`))?.oid ?? null;

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

    async listRefs(path, { prefix, limit = Number.POSITIVE_INFINITY, after, match, signal, timeoutMs }) {
      if (!/^refs\/(?:[a-z-]+\/)?$/.test(prefix)) throw new GitError('invalid', 'The reference prefix is not valid');
      const withTags = 'refs/tags/'.startsWith(prefix);
      const fields = withTags ? TAG_FIELDS : PLAIN_FIELDS;
      const { stdout } = await runner.run(path, ['for-each-ref', `--format=${fields}`, prefix], { signal, timeoutMs });
      const floor = after === undefined ? null : Buffer.from(after);
      const refs: Ref[] = [];
      for (const ref of withTags ? tagRecords(stdout) : plainRecords(stdout)) {
        if (refs.length >= limit) break;
        if (floor && Buffer.compare(Buffer.from(ref.name), floor) <= 0) continue;
        if (match && !match(ref.name.slice(prefix.length))) continue;
        refs.push(ref);
      }
      return refs;
    },

    async resolve(path, ref) {
      if (!validFullRef(ref)) return null;
      // `--verify` takes full names only: nothing is guessed.
      const { stdout } = await runner.run(path, ['show-ref', '--verify', '--hash', '--', ref], { allow: [1, 128] });
      const oid = stdout.toString('latin1').trim();
      if (oid === '' && !(await repositoryStands(runner, path)))
        throw new GitError('missing', 'The repository does not exist');
      return oid === '' ? null : oid;
    },

    async resolveCommit(path, revision) {
      if (validRefName(revision)) {
        // Full names: nothing else can be meant, as no branch or tag may be called `refs/...`.
        const oid = (await commitAt(path, `refs/heads/${revision}`)) ?? (await commitAt(path, `refs/tags/${revision}`));
        if (oid !== null) return oid;
      }
      const text = revision.toLowerCase();
      if (!ABBREVIATED.test(text)) return null;
      const oid = await commitAt(path, text);
      // git also looks for refs of that name; only an id is meant.
      return oid?.startsWith(text) ? oid : null;
    },

    async updateRefs(path, changes) {
      if (changes.length === 0) return;
      await runner.run(path, ['update-ref', '--stdin', '-z'], { input: transaction(changes) });
    },

    async mergedInto(path, targetOid, refs) {
      if (!validOid(targetOid)) throw new GitError('invalid', 'The object id is not valid');
      if (refs?.length === 0) return new Set();
      const patterns = refs && refs.length <= MAX_PATTERNS ? refs.filter(validFullRef) : ['refs/heads/'];
      const args = ['for-each-ref', `--merged=${targetOid}`, '--format=%(refname)', '--', ...patterns];
      const merged = new Set(lines((await runner.run(path, args)).stdout));
      return refs ? new Set(refs.filter((ref) => merged.has(ref))) : merged;
    },

    async isAncestor(path, ancestorOid, descendantOid) {
      if (!validOid(ancestorOid) || !validOid(descendantOid))
        throw new GitError('invalid', 'The object id is not valid');
      const args = ['merge-base', '--is-ancestor', ancestorOid, descendantOid];
      return (await runner.run(path, args, { allow: [1] })).exitCode === 0;
    },
  };
};

/** The input of `git update-ref --stdin -z`; throws `invalid` for names and ids that are not. */
export const transaction = (changes: readonly RefChange[]): string =>
  changes
    .map(({ ref, oldOid, newOid }) => {
      const oids = [oldOid, newOid].filter((oid) => typeof oid === 'string');
      if (!validFullRef(ref)) throw new GitError('invalid', 'The reference name is not valid');
      if (!oids.every(validOid)) throw new GitError('invalid', 'The object id is not valid');
      const old = oldOid === undefined ? '' : (oldOid ?? ZERO_OID);
      return newOid === null ? `delete ${ref}\0${old}\0` : `update ${ref}\0${newOid}\0${old}\0`;
    })
    .join('');

const ZERO_OID = '0'.repeat(40);

const PLAIN_FIELDS = '%(refname)%00%(objectname)';
const TAG_FIELDS = '%(refname)%00%(objectname)%00%(*objectname)%00%(objecttype)%00%(contents)%00';

function* plainRecords(output: Buffer): Generator<Ref> {
  for (const line of lines(output)) {
    const [name = '', oid = ''] = line.split('\0');
    yield { name, oid, peeledOid: oid, message: null };
  }
}

/** Messages hold line breaks, so the fields are counted instead. */
function* tagRecords(output: Buffer): Generator<Ref> {
  const fields = output.toString('utf8').split('\0');
  for (let at = 0; at + 5 < fields.length; at += 5) {
    const [name = '', oid = '', peeled = '', type = '', message = ''] = fields.slice(at, at + 5);
    const annotated = type === 'tag';
    yield {
      name: name.replace(/^\n/, ''),
      oid,
      peeledOid: annotated ? peeled : oid,
      message: annotated ? message : null,
    };
  }
}

const lines = (output: Buffer): string[] => {
  const text = output.toString('utf8');
  return text === '' ? [] : text.replace(/\n$/, '').split('\n');
};

const repositoryStands = async (runner: Runner, path: string): Promise<boolean> =>
  (await runner.run(path, ['rev-parse', '--git-dir'], { allow: [128] })).exitCode === 0;
