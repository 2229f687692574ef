import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

it.each(['repositories', 'storage'])('hides %s from other accounts on the machine', async (name) => {
  const { mode } = await stat(join(app().hub.services.config.dataDir, name));
  expect(mode & 0o077).toBe(0);
});
