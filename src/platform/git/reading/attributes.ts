import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { shortTemporaryFolder } from '../../files/temporary-folder.ts';
import type { Runner } from '../process/runner.ts';
import { splitRecords } from '../process/split-records.ts';
import type { Git } from '../types.ts';

/** Asks git itself, so that patterns match exactly as git matches them. */
export const createAttributes = (runner: Runner): Pick<Git, 'attributesOf'> => ({
  async attributesOf(path, { files, names, paths }, options = {}) {
    const found = new Map<string, Map<string, string>>();
    if (files.length === 0 || paths.length === 0) return found;
    const folder = await shortTemporaryFolder('millrace-attributes-', [runner.root]);
    try {
      // A bare repository has no work tree to read attributes from, so an index with only these files replaces it.
      const env = { GIT_INDEX_FILE: join(folder, 'index') };
      const entries = files.map((file) => `${file.mode} ${file.oid}\t${file.path}\0`).join('');
      await runner.run(path, ['update-index', '-z', '--index-info'], { ...options, env, input: entries });
      const output = runner.stream(path, ['check-attr', '--cached', '-z', '--stdin', ...names], {
        ...options,
        env,
        input: paths.map((each) => `${each}\0`).join(''),
      });
      const triple: string[] = [];
      for await (const record of splitRecords(output, 0)) {
        triple.push(record.toString('utf8'));
        const [of, name, value] = triple;
        if (of === undefined || name === undefined || value === undefined) continue;
        triple.length = 0;
        if (value === 'unspecified') continue;
        const values = found.get(of) ?? new Map<string, string>();
        values.set(name, value);
        found.set(of, values);
      }
      return found;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
});
