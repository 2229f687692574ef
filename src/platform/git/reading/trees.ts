import { GitError } from '../git-error.ts';
import type { ObjectReader } from '../objects/reader.ts';
import { canonicalMode, type RawEntry, textOf, typeOf } from '../objects/tree.ts';
import type { TreeReader } from '../objects/tree-reader.ts';
import type { TreeEntry } from '../objects.ts';
import type { Runner } from '../process/runner.ts';
import { splitRecords } from '../process/split-records.ts';
import { streamOf } from '../process/stream.ts';
import { isTreePath, requireOids, validOid } from '../ref-names.ts';
import type { Git } from '../types.ts';

type TreeFunctions = Pick<
  Git,
  'readBlob' | 'bytesOf' | 'readBytes' | 'findObject' | 'treeOf' | 'findFile' | 'findFiles' | 'walkTree'
>;

/** The limit of the open processes for one object (objects/reader.ts). */
const MAX_QUICK_BYTES = 1024 * 1024;
/** Submodules are listed last and held until then. No real repository has this many. */
const MAX_SUBMODULES = 10_000;
const ABBREVIATED = /^[0-9a-f]{7,64}$/;

export const createTrees = (runner: Runner, objects: ObjectReader, trees: TreeReader): TreeFunctions => {
  const withSize = async (path: string, filePath: string, entry: RawEntry): Promise<TreeEntry> => {
    const { oid } = entry;
    const type = typeOf(entry);
    const size = type === 'blob' ? ((await objects.read(path, 'info', oid))?.size ?? null) : null;
    return { mode: canonicalMode(entry.mode), type, oid, size, path: filePath };
  };

  const findFiles: TreeFunctions['findFiles'] = async (path, treeish, filePaths) => {
    const found = await trees.find(path, treeish, [...new Set(filePaths.filter(isTreePath))]);
    const sized = [...found].map(
      async ([filePath, entry]) => [filePath, await withSize(path, filePath, entry)] as const,
    );
    return new Map(await Promise.all(sized));
  };

  const readBlob: TreeFunctions['readBlob'] = async (
    path,
    oid,
    { signal, timeoutMs = 600_000, idleTimeoutMs } = {},
  ) => {
    const info = validOid(oid) ? await objects.read(path, 'info', oid) : null;
    if (info?.type !== 'blob') return null;
    // Uses its own process: a big blob must not block the reads of other callers.
    const release = runner.bounds.files.takeNow();
    const git = runner.launch(path, ['cat-file', 'blob', info.oid], { input: '' });
    const stream = streamOf(git, { signal, timeoutMs, idleTimeoutMs });
    stream.once('close', release);
    return { size: info.size, stream };
  };

  const bytesOf: TreeFunctions['bytesOf'] = (path, oid, call = {}) => {
    requireOids([oid]);
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
      // git also finds refs of that name, but only an id counts.
      return found?.oid.startsWith(text) ? { oid: found.oid, type: found.type, size: found.size } : null;
    },

    async treeOf(path, commitOid) {
      return validOid(commitOid) ? ((await objects.read(path, 'info', `${commitOid}^{tree}`))?.oid ?? null) : null;
    },

    findFiles,

    async findFile(path, treeish, filePath) {
      return (await findFiles(path, treeish, [filePath])).get(filePath) ?? null;
    },

    async *walkTree(path, treeish, { recursive = false, prefix = '', signal, timeoutMs } = {}) {
      requireOids([treeish]);
      if (!recursive) {
        const all = ((await trees.entries(path, treeish)) ?? []).map((entry): TreeEntry => {
          const { oid } = entry;
          return {
            mode: canonicalMode(entry.mode),
            type: typeOf(entry),
            oid,
            size: null,
            path: prefix + textOf(entry.name),
          };
        });
        for (const wanted of ['tree', 'blob', 'commit']) yield* all.filter(({ type }) => type === wanted);
        return;
      }
      const entries = async function* (...flags: string[]): AsyncGenerator<TreeEntry> {
        const args = ['ls-tree', '-z', '--full-tree', '-r', ...flags, treeish];
        for await (const record of splitRecords(runner.stream(path, args, { signal, timeoutMs }), 0)) {
          const entry = parseEntry(record.toString('utf8'));
          if (entry) yield { ...entry, path: prefix + entry.path };
        }
      };
      const submodules: TreeEntry[] = [];
      for await (const entry of entries('-d', '-t')) {
        if (entry.type === 'tree') yield entry;
        else if (submodules.length < MAX_SUBMODULES) submodules.push(entry);
      }
      for await (const entry of entries()) if (entry.type === 'blob') yield entry;
      yield* submodules;
    },
  };
};

/** A record of `git ls-tree`, with or without `-l`. */
const parseEntry = (record: string): TreeEntry | null => {
  const match = /^(\d{6}) (blob|tree|commit) ([0-9a-f]+)(?: +(\d+|-))?\t([\s\S]+)$/.exec(record);
  if (!match) return null;
  const [, mode = '', type = '', oid = '', size = '-', path = ''] = match;
  if (type !== 'blob' && type !== 'tree' && type !== 'commit') return null;
  return { mode, type, oid, size: size === '-' ? null : Number(size), path };
};
