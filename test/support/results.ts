import { writeFileSync } from 'node:fs';
import type { Reporter, SerializedError, TestModule } from 'vitest/node';
import { pathOf } from './durations.ts';

/** Writes what `.ci/summary.mjs` prints to a file. Unlike the JSON of vitest, it has the failures of hooks. */
export default class Results implements Reporter {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const countOf = (state: string) => tests.filter((test) => test.result().state === state).length;
    const files = modules.map((module) => {
      const { duration } = module.diagnostic();
      return { path: pathOf(module.moduleId), seconds: duration / 1_000, failures: failuresOf(module) };
    });
    const outsideTests = files.flatMap(({ failures }) => failures.filter(({ isTest }) => !isTest));
    const results = {
      files,
      unhandled: unhandled.map(textOf),
      passed: countOf('passed'),
      failed: countOf('failed') + outsideTests.length + unhandled.length,
      skipped: countOf('skipped'),
    };
    writeFileSync(this.#path, JSON.stringify(results));
  }
}

interface Failure {
  readonly name: string;
  /** False for a file that cannot be loaded, and for hooks. These skip the tests that need them. */
  readonly isTest: boolean;
  readonly errors: readonly string[];
}

const failuresOf = (module: TestModule): Failure[] => {
  const failed = (name: string, isTest: boolean, errors: readonly SerializedError[] = []): Failure[] =>
    errors.length === 0 ? [] : [{ name, isTest, errors: errors.map(textOf) }];
  return [
    ...failed('the file', false, module.errors()),
    ...[...module.children.allSuites()].flatMap((suite) => failed(suite.fullName, false, suite.errors())),
    ...[...module.children.allTests('failed')].flatMap((test) => failed(test.fullName, true, test.result().errors)),
  ];
};

const textOf = ({ stack, message }: SerializedError): string => stack ?? message;
