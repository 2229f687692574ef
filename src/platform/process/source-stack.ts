import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** A position in a bundle of the hub (src/app/bundle.ts). */
const POSITION = /(file:\/\/\/[^\s:]+\/bundle-[0-9a-f]+\/[^/\s:]+\.mjs):(\d+):(\d+)/g;
/** Maps take tens of megabytes, and errors come in bursts. */
const KEPT_MS = 60_000;

const payload = z.object({
  file: z.string().default(''),
  version: z.number(),
  sources: z.array(z.string()),
  sourcesContent: z.array(z.string()).default([]),
  names: z.array(z.string()),
  mappings: z.string(),
  sourceRoot: z.string().default(''),
});

const maps = new Map<string, SourceMap | null>();

/** Returns the stack with the positions in the sources in place of those in a bundle. */
export const sourceStack = (stack: string): string =>
  stack.replaceAll(POSITION, (position: string, url: string, line: string, column: string) => {
    const found = mapOf(url)?.findEntry(Number(line) - 1, Number(column) - 1);
    if (!found || !('originalSource' in found)) return position;
    const source = fileURLToPath(new URL(found.originalSource, url));
    return `${source}:${found.originalLine + 1}:${found.originalColumn + 1}`;
  });

const mapOf = (url: string): SourceMap | null => {
  let map = maps.get(url);
  if (map === undefined) {
    map = readMap(`${fileURLToPath(url)}.map`);
    if (maps.size === 0) setTimeout(() => maps.clear(), KEPT_MS).unref();
    maps.set(url, map);
  }
  return map;
};

const readMap = (file: string): SourceMap | null => {
  try {
    return new SourceMap(payload.parse(JSON.parse(readFileSync(file, 'utf8'))));
  } catch {
    return null; // A bundle that was removed. Its positions are better than none.
  }
};
