import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { cruise } from './support/cruise.ts';

const root = dirname(import.meta.dirname);

test('the import rules hold for the whole repository, and the checker reads all of it', async () => {
  const { violations, totalCruised } = await cruise(root);
  expect(violations).toEqual([]);
  const sources = (await readdir(join(root, 'src'), { recursive: true })).filter((name) => name.endsWith('.ts'));
  // With a TypeScript version it does not support, the checker would read nothing and pass.
  expect(totalCruised).toBeGreaterThanOrEqual(sources.length);
});
