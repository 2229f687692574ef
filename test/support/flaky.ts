import type { Reporter, TestModule, Vitest } from 'vitest/node';
import { pathOf } from './durations.ts';

/** Names the tests that failed once and passed when repeated. Each is a defect, though it does not fail the run. */
export default class Flaky implements Reporter {
  #vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    for (const module of modules) {
      for (const test of module.children.allTests('passed')) {
        if (!test.diagnostic()?.flaky) continue;
        this.#vitest?.logger.log(`FLAKY ${pathOf(module.moduleId)}: ${test.fullName}`);
        for (const { message } of test.result().errors ?? []) this.#vitest?.logger.log(`  ${message}`);
      }
    }
  }
}
