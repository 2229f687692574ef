import { GitError } from './git-error.ts';
import type { ObjectReader } from './object-reader.ts';
import type { Runner } from './process.ts';
import { streamOf } from './process-stream.ts';
import { validOid } from './ref-names.ts';
import type { Git, TreeEntry } from './types.ts';

type TreeFunctions = Pick<Git, 'readBlob' | 'findFile' | 'listTree'>;

export const createTrees = (runner: Runner, objects: ObjectReader): TreeFunctions => {
  const list = async (path: string, treeish: string, name?: string): Promise<TreeEntry[]> => {
    if (!validOid(treeish)) throw new GitError('invalid', 'The object id is not valid');
    if (name?.includes('\0')) return [];
    const args = ['ls-tree', '-z', '-l', '--full-tree', treeish, '--', ...(name === undefined ? [] : [name])];
    return parseTree((await runner.run(path, args)).stdout);
  };

  return {
    async readBlob(path, oid, { signal, timeoutMs = 600_000 } = {}) {
      const info = validOid(oid) ? await objects.read(path, 'info', oid) : null;
      if (info?.type !== 'blob') return null;
      // A process of its own: a big blob must not hold up everybody else's reads.
      const git = runner.launch(path, ['cat-file', 'blob', info.oid]);
      git.stdin.end();
      return { size: info.size, stream: streamOf(git, { signal, timeoutMs }) };
    },

    async findFile(path, treeish, filePath) {
      if (filePath === '' || filePath.endsWith('/')) return null;
      const entries = await list(path, treeish, filePath);
      return entries.find((entry) => entry.path === filePath) ?? null;
    },

    async listTree(path, treeish, folder = '') {
      const name = folder.replace(/\/+$/, '');
      return name === '' ? list(path, treeish) : list(path, treeish, `${name}/`);
    },
  };
};

const parseTree = (output: Buffer): TreeEntry[] => {
  const entries: TreeEntry[] = [];
  for (const record of output.toString('utf8').split('\0')) {
    const match = /^(\d{6}) (blob|tree|commit) ([0-9a-f]+) +(\d+|-)\t([\s\S]+)$/.exec(record);
    if (!match) continue;
    const [, mode = '', type = '', oid = '', size = '', path = ''] = match;
    if (type !== 'blob' && type !== 'tree' && type !== 'commit') continue;
    entries.push({ mode, type, oid, size: size === '-' ? null : Number(size), path });
  }
  return entries;
};
