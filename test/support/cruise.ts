import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);

const report = z.object({
  summary: z.object({
    violations: z.array(z.object({ from: z.string(), to: z.string(), rule: z.object({ name: z.string() }) })),
  }),
});

/** Runs the import checker with the project's rules on the `src` below `directory`. */
export const cruise = async (directory: string) => {
  const bin = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
  const args = [bin, '--config', '.dependency-cruiser.cjs', '--output-type', 'json', 'src'];
  const { stdout } = await run(process.execPath, args, { cwd: directory, maxBuffer: 256 * 1024 * 1024 }).catch(
    (error: unknown) => z.object({ stdout: z.string() }).parse(error),
  );
  return report.parse(JSON.parse(stdout)).summary;
};
