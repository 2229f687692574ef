import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../config/config.ts';
import { writeOnce } from '../files/durable.ts';

const FILE = 'instance-key';
const BYTES = 32;

/**
 * Returns the key that encrypts values that must be read back (hook secrets, upload URLs). It is MILLRACE_SECRET_KEY if
 * several machines share a database, else a file that the first process creates in the data directory.
 */
export const loadInstanceKey = async (dataDir: string, configured: string | null): Promise<Buffer> => {
  if (configured !== null) return Buffer.from(configured, 'base64');
  await mkdir(dataDir, { recursive: true });
  const path = join(dataDir, FILE);
  const key = await writeOnce(path, randomBytes(BYTES));
  if (key.length !== BYTES) throw new ConfigError(`${path} is not an instance key: ${BYTES} bytes were expected.`);
  return key;
};
