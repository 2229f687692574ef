import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Runner } from '../process/runner.ts';

const TIMEOUT_MS = 10 * 60_000;

/**
 * Copies the objects that the commit needs and this repository lacks, as a pack. `env` lets git see the source's
 * objects.
 */
export const borrow = async (
  runner: Runner,
  path: string,
  oid: string,
  env: Readonly<Record<string, string>>,
): Promise<void> => {
  const folder = join(env.GIT_OBJECT_DIRECTORY ?? '', 'pack');
  await mkdir(folder, { recursive: true });
  const [list, pack] = await Promise.all([
    runner.launch(path, ['rev-list', '--objects', '--not', '--all', '--not', '--stdin'], { env, input: `${oid}\n` }),
    runner.launch(path, ['pack-objects', '--quiet', '--delta-base-offset', join(folder, 'pack')], { env }),
  ]);
  pack.stdout.resume();
  list.stdout.pipe(pack.stdin);
  const timer = setTimeout(() => {
    list.kill('timeout');
    pack.kill('timeout');
  }, TIMEOUT_MS);
  try {
    const [listed, packed] = await Promise.all([list.exited, pack.exited]);
    if (listed !== 0) throw list.failure(listed);
    if (packed !== 0) throw pack.failure(packed);
  } finally {
    clearTimeout(timer);
  }
};
