import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { cruise } from './support/cruise.ts';

const root = dirname(import.meta.dirname);

test('the import rules hold in this house, and the checker has looked at all of it', async () => {
  const { violations, totalCruised } = await cruise(root);
  expect(violations).toEqual([]);
  const sources = (await readdir(join(root, 'src'), { recursive: true })).filter((name) => name.endsWith('.ts'));
  // Beside a TypeScript it cannot use, the checker would see nothing and pass.
  expect(totalCruised).toBeGreaterThanOrEqual(sources.length);
});
