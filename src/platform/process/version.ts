import { readFileSync } from 'node:fs';
import { z } from 'zod';

const { version } = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')));

/** The hub's version. Existing tools enable features by its number, so it follows the version of the API (17.x). */
export const VERSION: string = version;
