import { statSync } from 'node:fs';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { pathOf, readDurations } from './durations.ts';

/** Tests in these folders start many git processes, so even small files take long. */
const GIT = /^test\/(repositories|transfers|push-rules|releases|merge-requests)\//;

/** Short files that start whole clusters, and take longest. */
const TORTURE = /^test\/torture\//;

/**
 * Orders the test files. The slowest come first, so that no worker is left alone with one at the end.
 * Without earlier durations, the size of a file is used instead.
 *
 * Soak files come before the others, and those of the project `kits` come last: a worker is replaced whenever the next
 * file belongs to another project, and each new worker imports the hub again.
 */
export default class Sequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const known = readDurations();
    const rank = ({ project, moduleId }: TestSpecification): number =>
      project.name === 'kits' ? 2 : moduleId.endsWith('.soak.test.ts') ? 0 : 1;
    const expected = ({ moduleId }: TestSpecification): number => {
      const path = pathOf(moduleId);
      return known.get(path) ?? statSync(moduleId).size * (TORTURE.test(path) ? 1_000 : GIT.test(path) ? 3 : 1);
    };
    const sorted = files.map((file) => ({ file, rank: rank(file), expected: expected(file) }));
    return sorted.toSorted((a, b) => a.rank - b.rank || b.expected - a.expected).map(({ file }) => file);
  }
}
