import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** They start hubs, databases and browsers, let deadlines pass, or ask every route: small files that take long. */
const LONG =
  /\/(torture|system)\/|\/(embedded|receivers|limits|scopes|fuzz|visibility)\.test\.|crash\.test\.|\.browser\.test\./;

/**
 * The order of test files: what takes long first, so that no worker is left alone with it at the end. Files that have a
 * worker of their own come last: before the next one of these a worker is ended, and all others import the hub anew.
 */
export default class Sequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project, moduleId }: TestSpecification): number =>
      project.config.isolate ? 2 : LONG.test(moduleId) ? 0 : 1;
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
