import type { ObjectReader } from '../objects/reader.ts';
import type { Runner } from '../process/runner.ts';
import { splitRecords } from '../process/split-records.ts';
import { requireOids, validOid } from '../ref-names.ts';
import type { Git } from '../types.ts';

type AllFiles = Pick<Git, 'allFiles' | 'readBeginning'>;

export const createAllFiles = (runner: Runner, objects: ObjectReader): AllFiles => ({
  async *allFiles(path, treeish, options = {}) {
    requireOids([treeish]);
    const output = runner.stream(path, ['ls-tree', '-r', '-l', '-z', '--full-tree', treeish], options);
    for await (const record of splitRecords(output, 0)) {
      const match = /^(\d{6}) blob ([0-9a-f]+) +(\d+)\t([\s\S]+)$/.exec(record.toString('utf8'));
      if (!match) continue;
      const [, mode = '', oid = '', size = '', name = ''] = match;
      yield { mode, oid, size: Number(size), path: name };
    }
  },

  async readBeginning(path, oid, bytes) {
    if (!validOid(oid)) return null;
    return (await objects.read(path, 'contents', oid))?.content.subarray(0, bytes) ?? null;
  },
});
