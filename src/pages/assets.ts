import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Asset {
  readonly path: string;
  readonly type: string;
  readonly content: Buffer;
}

/** A file that can be cached forever, because its name changes with its content. */
const asset = (file: string, type: string): Asset => {
  const content = readFileSync(join(import.meta.dirname, file));
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 12);
  return { path: `/-/assets/${hash}-${file}`, type, content };
};

export const stylesheet = asset('style.css', 'text/css; charset=utf-8');
export const icon = asset('icon.svg', 'image/svg+xml');
