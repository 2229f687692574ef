import { statSync } from 'node:fs';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { pathOf, readDurations } from './durations.ts';

/** Each of these tests starts many git processes: small files take long. */
const GIT = /^test\/(repositories|transfers|push-rules|releases|merge-requests)\//;

/**
 * The order of test files. First come those that take longest, so that no worker is left alone with one at the end.
 * Without durations of an earlier run the size of a file stands for its duration.
 *
 * Soak files come before the others, and files that have a worker of their own come last: a worker is replaced whenever
 * the next file belongs to another project, and each new one imports the hub again.
 */
export default class Sequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const known = readDurations();
    const rank = ({ project }: TestSpecification): number =>
      project.config.isolate ? 2 : project.name === 'soak' ? 0 : 1;
    const expected = ({ moduleId }: TestSpecification): number => {
      const path = pathOf(moduleId);
      return known.get(path) ?? statSync(moduleId).size * (GIT.test(path) ? 3 : 1);
    };
    const sorted = files.map((file) => ({ file, rank: rank(file), expected: expected(file) }));
    return sorted.toSorted((a, b) => a.rank - b.rank || b.expected - a.expected).map(({ file }) => file);
  }
}
