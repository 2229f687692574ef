import { z } from 'zod';

const counts = z.record(z.string(), z.number());

/** How many objects of each kind the source had, and how many of them were imported (specification 1 §2.2). */
export const importStats = z.object({ fetched: counts, imported: counts });
export type ImportStats = z.output<typeof importStats>;

export const NO_STATS: ImportStats = { fetched: {}, imported: {} };

/** The kinds that the specification names, and words of the same style for other relations. */
const KINDS: Readonly<Record<string, string>> = {
  labels: 'label',
  milestones: 'milestone',
  issues: 'issue',
  snippets: 'snippet',
  releases: 'release',
  project_members: 'member',
  protected_branches: 'protected_branch',
  protected_tags: 'protected_tag',
  approval_rules: 'approval_rule',
  merge_requests: 'pull_request',
  ci_pipelines: 'pipeline',
  pipeline_schedules: 'pipeline_schedule',
  triggers: 'pipeline_trigger',
};

/** Returns the kind of the items of a relation. Null for relations whose items are counted as notes. */
export const kindOfRelation = (relation: string): string | null => KINDS[relation] ?? null;

export const addStats = (left: ImportStats, right: ImportStats): ImportStats => ({
  fetched: add(left.fetched, right.fetched),
  imported: add(left.imported, right.imported),
});

const add = (left: Readonly<Record<string, number>>, right: Readonly<Record<string, number>>) => {
  const sum: Record<string, number> = { ...left };
  for (const [kind, count] of Object.entries(right)) sum[kind] = (sum[kind] ?? 0) + count;
  return sum;
};

/** Counts the objects of one batch. */
export class StatCounter {
  readonly #fetched: Record<string, number> = {};
  readonly #imported: Record<string, number> = {};

  fetched(kind: string, count = 1): void {
    if (count > 0) this.#fetched[kind] = (this.#fetched[kind] ?? 0) + count;
  }

  imported(kind: string, count = 1): void {
    if (count > 0) this.#imported[kind] = (this.#imported[kind] ?? 0) + count;
  }

  get stats(): ImportStats {
    return { fetched: this.#fetched, imported: this.#imported };
  }
}
