import { readFileSync } from 'node:fs';
import { z } from 'zod';

const { version } = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')));

/** The hub's version: existing tools switch features on by its numbers, so it follows the interface's (17.x). */
export const VERSION: string = version;
