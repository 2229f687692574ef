import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';
import { z } from 'zod';

const ROOT = join(import.meta.dirname, '../..');
/** This file is not committed, and not below node_modules, which `npm ci` empties. */
const FILE = join(ROOT, '.cache/test-durations.json');

const durations = z.record(z.string(), z.number());

/**
 * Returns the last duration of each test file in milliseconds, by path in the repository. Empty before the first run.
 */
export const readDurations = (): ReadonlyMap<string, number> => {
  try {
    return new Map(Object.entries(durations.parse(JSON.parse(readFileSync(FILE, 'utf8')))));
  } catch {
    return new Map();
  }
};

export const pathOf = (moduleId: string): string => relative(ROOT, moduleId);

/** Saves the duration of each file, so that the next run can start with the longest. */
export default class Durations implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const known = new Map(readDurations());
    for (const module of modules) {
      const { duration, collectDuration } = module.diagnostic();
      if (module.state() !== 'skipped') known.set(pathOf(module.moduleId), Math.round(duration + collectDuration));
    }
    mkdirSync(dirname(FILE), { recursive: true });
    writeFileSync(FILE, `${JSON.stringify(Object.fromEntries([...known].toSorted()), null, 1)}\n`);
  }
}
