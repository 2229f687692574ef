import { GitError } from './git-error.ts';
import type { ObjectReader } from './object-reader.ts';
import type { Runner } from './process.ts';
import { streamOf } from './process-stream.ts';
import { isTreePath, validOid } from './ref-names.ts';
import { splitRecords } from './split-records.ts';
import type { Git, TreeEntry } from './types.ts';

type TreeFunctions = Pick<
  Git,
  'readBlob' | 'bytesOf' | 'readBytes' | 'findObject' | 'treeOf' | 'findFile' | 'findFiles' | 'listTree' | 'walkTree'
>;

/** What the kept-open processes hand over of one object (object-reader.ts). */
const MAX_QUICK_BYTES = 1024 * 1024;
const MAX_NAMES = 200;
/** Submodules are listed last and held until then; nobody has so many. */
const MAX_SUBMODULES = 10_000;
const ABBREVIATED = /^[0-9a-f]{7,64}$/;

export const createTrees = (runner: Runner, objects: ObjectReader): TreeFunctions => {
  const list = async (
    path: string,
    treeish: string,
    names: readonly string[],
    ...flags: string[]
  ): Promise<TreeEntry[]> => {
    if (!validOid(treeish)) throw new GitError('invalid', 'The object id is not valid');
    const args = ['ls-tree', '-z', '-l', '--full-tree', ...flags, treeish, '--', ...names];
    return parseTree((await runner.run(path, args)).stdout);
  };

  const findFiles: TreeFunctions['findFiles'] = async (path, treeish, filePaths) => {
    const wanted = [...new Set(filePaths.filter(isTreePath))];
    const found = new Map<string, TreeEntry>();
    const isWanted = new Set(wanted);
    for (let at = 0; at < wanted.length; at += MAX_NAMES) {
      const names = wanted.slice(at, at + MAX_NAMES);
      // `-t`: also a folder in which something else is asked for.
      for (const entry of await list(path, treeish, names, '-t'))
        if (isWanted.has(entry.path)) found.set(entry.path, entry);
    }
    return found;
  };

  const readBlob: TreeFunctions['readBlob'] = async (
    path,
    oid,
    { signal, timeoutMs = 600_000, idleTimeoutMs } = {},
  ) => {
    const info = validOid(oid) ? await objects.read(path, 'info', oid) : null;
    if (info?.type !== 'blob') return null;
    // A process of its own: a big blob must not hold up everybody else's reads.
    const release = runner.bounds.files.takeNow();
    const git = runner.launch(path, ['cat-file', 'blob', info.oid], { input: '' });
    const stream = streamOf(git, { signal, timeoutMs, idleTimeoutMs });
    stream.once('close', release);
    return { size: info.size, stream };
  };

  const bytesOf: TreeFunctions['bytesOf'] = (path, oid, call = {}) => {
    if (!validOid(oid)) throw new GitError('invalid', 'The object id is not valid');
    return runner.stream(path, ['cat-file', 'blob', oid], call);
  };

  return {
    readBlob,
    bytesOf,

    async readBytes(path, oid, maxBytes, call = {}) {
      const info = validOid(oid) ? await objects.read(path, 'info', oid) : null;
      if (info?.type !== 'blob') return null;
      if (info.size > maxBytes) throw new GitError('too_large', 'The file is too large');
      if (info.size <= MAX_QUICK_BYTES) return (await objects.read(path, 'contents', info.oid))?.content ?? null;
      const chunks: Buffer[] = [];
      for await (const chunk of bytesOf(path, info.oid, call)) chunks.push(chunk);
      return Buffer.concat(chunks);
    },

    async findObject(path, id) {
      const text = id.toLowerCase();
      if (!ABBREVIATED.test(text)) return null;
      const found = await objects.read(path, 'info', text);
      // git also looks for refs of that name; only an id is meant.
      return found?.oid.startsWith(text) ? { oid: found.oid, type: found.type, size: found.size } : null;
    },

    async treeOf(path, commitOid) {
      return validOid(commitOid) ? ((await objects.read(path, 'info', `${commitOid}^{tree}`))?.oid ?? null) : null;
    },

    findFiles,

    async findFile(path, treeish, filePath) {
      return (await findFiles(path, treeish, [filePath])).get(filePath) ?? null;
    },

    async listTree(path, treeish, folder = '') {
      const name = folder.replace(/\/+$/, '');
      if (name === '') return list(path, treeish, []);
      return isTreePath(name) ? list(path, treeish, [`${name}/`]) : [];
    },

    async *walkTree(path, treeOid, { recursive = false, prefix = '', signal, timeoutMs } = {}) {
      if (!validOid(treeOid)) throw new GitError('invalid', 'The object id is not valid');
      const entries = async function* (...flags: string[]): AsyncGenerator<TreeEntry> {
        const args = ['ls-tree', '-z', '--full-tree', ...(recursive ? ['-r'] : []), ...flags, treeOid];
        for await (const record of splitRecords(runner.stream(path, args, { signal, timeoutMs }), 0)) {
          const entry = parseEntry(record.toString('utf8'));
          if (entry) yield { ...entry, path: prefix + entry.path };
        }
      };
      const submodules: TreeEntry[] = [];
      for await (const entry of entries('-d', ...(recursive ? ['-t'] : []))) {
        if (entry.type === 'tree') yield entry;
        else if (submodules.length < MAX_SUBMODULES) submodules.push(entry);
      }
      for await (const entry of entries()) if (entry.type === 'blob') yield entry;
      yield* submodules;
    },
  };
};

const parseTree = (output: Buffer): TreeEntry[] =>
  output
    .toString('utf8')
    .split('\0')
    .flatMap((record) => parseEntry(record) ?? []);

/** A record of `git ls-tree`, with or without `-l`. */
const parseEntry = (record: string): TreeEntry | null => {
  const match = /^(\d{6}) (blob|tree|commit) ([0-9a-f]+)(?: +(\d+|-))?\t([\s\S]+)$/.exec(record);
  if (!match) return null;
  const [, mode = '', type = '', oid = '', size = '-', path = ''] = match;
  if (type !== 'blob' && type !== 'tree' && type !== 'commit') return null;
  return { mode, type, oid, size: size === '-' ? null : Number(size), path };
};
