import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Reporter, TestRunEndReason, TestSpecification, Vitest } from 'vitest/node';
import { z } from 'zod';

/** Lists what no test reaches yet. It may only get shorter. */
const FILE = join(import.meta.dirname, 'unreached.json');
const lists = z.record(z.string(), z.array(z.string()));

/**
 * After a whole `npm test`, reports SQL that was never sent, and parameters and arguments that were never set
 * (docs/decisions/0029). Fails the run if one is missing from `unreached.json`, or if one listed there was reached.
 * The first run without that file writes it, and so does `UPDATE_UNREACHED=1`.
 */
export default class Unreached implements Reporter {
  #vitest: Vitest | undefined;
  #whole = false;
  #withSoak = false;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  async onTestRunStart(specifications: readonly TestSpecification[]): Promise<void> {
    const vitest = this.#vitest;
    if (!vitest || vitest.config.watch || vitest.config.testNamePattern || vitest.config.shard) return;
    const names = new Set(vitest.projects.map(({ name }) => name));
    this.#withSoak = names.has('soak');
    if (!names.has('hub') || !names.has('kits')) return;
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
    const writes = !existsSync(FILE) || Boolean(process.env.UPDATE_UNREACHED);
    const known = writes ? {} : lists.parse(JSON.parse(readFileSync(FILE, 'utf8')));
    const next: Record<string, string[]> = {};
    const say = (text: string) => this.#vitest?.logger.log(text);
    for (const [kind, reachable] of Object.entries(kinds)) {
      const unreached = reachable.filter(({ name }) => !reached.has(name));
      say(`${kind}: tests reach ${reachable.length - unreached.length} of ${reachable.length}`);
      next[kind] = unreached.map(({ label }) => withoutLine(label)).toSorted();
      const listed = new Set(known[kind]);
      const added = unreached.filter(({ label }) => !listed.has(withoutLine(label)));
      // The list is for `npm test`. The soak tests reach more.
      const gone = this.#withSoak ? [] : [...listed].filter((label) => !next[kind]?.includes(label));
      if (writes) {
        for (const { label } of unreached) say(`  unreached: ${label}`);
        continue;
      }
      for (const { label } of added) say(`  no test reaches ${label}`);
      for (const label of gone) say(`  reached by now, or gone: take it out of unreached.json: ${label}`);
      if (added.length > 0 || gone.length > 0) process.exitCode = 1;
    }
    if (writes) writeFileSync(FILE, `${JSON.stringify(next, null, 2)}\n`);
  }
}

const besides = (name: string): string => pathToFileURL(join(import.meta.dirname, name)).href;

/** Returns the label without its line number, as in the file, because lines move. */
const withoutLine = (label: string): string => label.replace(/^(src\/\S+\.ts):\d+ /, '$1 ');
