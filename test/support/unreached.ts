import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Reporter, TestRunEndReason, TestSpecification, Vitest } from 'vitest/node';

/**
 * After a run of all tests, names the SQL that was never sent, and the parameters and arguments that were never set
 * (docs/decisions/0029). Fails the run if there are any.
 */
export default class Unreached implements Reporter {
  #vitest: Vitest | undefined;
  #whole = false;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  async onTestRunStart(specifications: readonly TestSpecification[]): Promise<void> {
    const vitest = this.#vitest;
    if (!vitest || vitest.config.watch || vitest.config.testNamePattern || vitest.config.shard) return;
    if (vitest.config.project.length > 0) return;
    this.#whole = (await vitest.globTestSpecifications()).length === specifications.length;
  }

  async onTestRunEnd(_modules: unknown, _errors: unknown, reason: TestRunEndReason): Promise<void> {
    if (!this.#whole || reason === 'interrupted') return;
    // Import by URL, because vitest bundles the imports of its configuration, and these would bring in the whole hub.
    const { readReached }: typeof import('./reached.ts') = await import(besides('reached.ts'));
    const lister: typeof import('./reachable.ts') = await import(besides('reachable.ts'));
    const reached = readReached();
    const kinds = {
      statements: await lister.statementsOfSource(),
      'REST parameters': lister.restParameters(),
      'GraphQL arguments': lister.graphqlArguments(),
    };
    for (const [kind, reachable] of Object.entries(kinds)) {
      const unreached = reachable.filter(({ name }) => !reached.has(name));
      this.#vitest?.logger.log(`${kind}: tests reach ${reachable.length - unreached.length} of ${reachable.length}`);
      for (const { label } of unreached) this.#vitest?.logger.log(`  no test reaches ${label}`);
      if (unreached.length > 0) process.exitCode = 1;
    }
  }
}

const besides = (name: string): string => pathToFileURL(join(import.meta.dirname, name)).href;
