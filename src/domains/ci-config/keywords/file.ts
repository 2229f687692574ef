import type { FileDefinition, JobDefinition, Workflow } from '../definition.ts';
import type { FileVariable, Need } from '../model.ts';
import type { Mapping, Value } from '../values.ts';
import { readDefaults } from './defaults.ts';
import { type ReadJob, readJob, readStages } from './job.ts';
import { checkJobs } from './job-checks.ts';
import { KeyPath, readHash, readText } from './key-path.ts';
import { countOf, variantsOf } from './parallel.ts';
import { readAutoCancel, readRules } from './rules.ts';
import { readVariables } from './variables.ts';

/** Words at the root that name no job. */
const ROOT_KEYS: ReadonlySet<string> = new Set([
  'default',
  'include',
  'before_script',
  'after_script',
  'image',
  'services',
  'variables',
  'stages',
  'cache',
  'workflow',
]);
/** With those of `parallel`. More would take the memory of the process. */
const MAX_JOBS = 10_000;
const TOO_MANY_JOBS = `The number of jobs has exceeded the limit of ${MAX_JOBS}. Try splitting the configuration with parent-child-pipelines`;
/** Needs and dependencies of all jobs together. */
const MAX_LINKS = 500_000;
/** The size of all jobs together, as their rows store them. */
const MAX_JOB_BYTES = 50 * 1024 * 1024;
const USUAL_STAGES = ['build', 'test', 'deploy'];
const FIRST_STAGE = '.pre';
const LAST_STAGE = '.post';

export type ReadFile =
  | { readonly errors: readonly string[] }
  | { readonly errors: null; readonly file: FileDefinition };

/**
 * Reads the keywords of a CI file whose includes, `extends` and `!reference` are resolved, then checks the jobs against
 * each other.
 */
export const readFile = (root: Mapping): ReadFile => {
  const errors: string[] = [];
  const at = new KeyPath(errors);
  const workflow = readWorkflow(root.get('workflow') ?? null, at.in('workflow'));
  const defaults = readDefaults(root, at);
  const variables = readVariables(root.get('variables'), at.in('variables'), 'root');
  const stages = (readStages(root.get('stages'), at.in('stages')) ?? USUAL_STAGES).filter(
    (stage) => stage !== FIRST_STAGE && stage !== LAST_STAGE,
  );
  const jobs: ReadJob[] = [];
  let [visible, made] = [0, 0];
  for (const [name, value] of root) {
    if (ROOT_KEYS.has(name) || name.startsWith('.')) continue;
    visible++;
    const job = readJob(name, value, defaults, at.in('jobs'));
    if (!job) continue;
    jobs.push(job);
    made += countOf(job.parallel);
    if (made > MAX_JOBS) return { errors: [TOO_MANY_JOBS] };
  }
  if (visible === 0) at.in('jobs').fail('should contain at least one visible job');
  const tooMany = sizeProblem(jobs, variables);
  if (tooMany !== null) errors.push(tooMany);
  if (errors.length > 0) return { errors: [...new Set(errors)] };
  const file: FileDefinition = {
    stages: [FIRST_STAGE, ...new Set(stages), LAST_STAGE],
    variables,
    workflow,
    jobs: withVariants(jobs),
    warnings: workflow.rules ? [] : jobs.flatMap(duplicatesWarning),
  };
  const problem = checkJobs(file);
  return problem === null ? { errors: null, file } : { errors: [problem] };
};

const readWorkflow = (value: Value, at: KeyPath): Workflow => {
  const hash = value === null ? null : readHash(value, at, ['rules', 'name', 'auto_cancel']);
  const name = hash && readText(hash, 'name', at);
  if (name !== null && (name === '' || name.length > 255)) at.fail('must be between 1 and 255 characters', 'name');
  return {
    rules: hash && readRules(hash.get('rules'), at.in('rules'), 'workflow'),
    name,
    auto_cancel: readAutoCancel(hash?.get('auto_cancel'), at.in('auto_cancel')),
  };
};

/**
 * Returns what is wrong with the number of needs and dependencies, or with the size of the jobs, once `parallel` has made
 * them. A small file can make very many, and all jobs repeat the variables of the root.
 */
const sizeProblem = (jobs: readonly ReadJob[], rootVariables: readonly FileVariable[]): string | null => {
  const counts = new Map(jobs.map(({ definition, parallel }) => [definition.base_name, countOf(parallel)]));
  const sumOf = (names: readonly string[]): number => names.reduce((sum, name) => sum + (counts.get(name) ?? 1), 0);
  const rootBytes = JSON.stringify(rootVariables).length;
  let [links, bytes] = [0, 0];
  for (const { definition, parallel } of jobs) {
    const ofRules = (definition.rules ?? []).flatMap((rule) => rule.variables);
    bytes += countOf(parallel) * (JSON.stringify([definition.job, ofRules]).length + rootBytes);
    if (bytes > MAX_JOB_BYTES) return `The jobs are larger than ${MAX_JOB_BYTES} bytes together`;
    const { needs, dependencies } = definition.job;
    const needed = [needs, ...(definition.rules ?? []).map((rule) => rule.needs)].flatMap((each) => each ?? []);
    links += countOf(parallel) * sumOf([...needed.map(({ name }) => name), ...(dependencies ?? [])]);
  }
  return links > MAX_LINKS ? `The jobs have more than ${MAX_LINKS} needs and dependencies` : null;
};

/** Makes the jobs of `parallel`. Needs and dependencies that name such a job mean all of them. */
const withVariants = (jobs: readonly ReadJob[]): JobDefinition[] => {
  const variants = new Map(
    jobs.flatMap(({ definition, parallel }) =>
      parallel === null ? [] : [[definition.base_name, variantsOf(definition.base_name, parallel)] as const],
    ),
  );
  const namesOf = (name: string): readonly string[] => variants.get(name)?.map((variant) => variant.name) ?? [name];
  const needsOf = (needs: readonly Need[]): readonly Need[] => [
    ...new Map(needs.flatMap((need) => namesOf(need.name).map((name) => [name, { ...need, name }] as const))).values(),
  ];
  return jobs.flatMap(({ definition }) => {
    const { job } = definition;
    const connected: JobDefinition = {
      ...definition,
      rules: definition.rules?.map((rule) => ({ ...rule, needs: rule.needs && needsOf(rule.needs) })) ?? null,
      job: {
        ...job,
        needs: job.needs && needsOf(job.needs),
        dependencies: job.dependencies && [...new Set(job.dependencies.flatMap(namesOf))],
      },
    };
    return (
      variants.get(definition.base_name)?.map(({ name, variables, parallel }) => ({
        ...connected,
        job: {
          ...connected.job,
          name,
          parallel,
          variables: [...job.variables, ...[...variables].map(([key, value]) => ({ key, value, raw: false }))],
        },
      })) ?? [connected]
    );
  });
};

const duplicatesWarning = ({ definition: { rules, base_name } }: ReadJob): string[] => {
  const last = rules?.at(-1);
  const isOpen = last && last.when !== null && last.when !== 'never' && !last.if && !last.changes && !last.exists;
  return isOpen
    ? [
        `jobs:${base_name} may allow multiple pipelines to run for a single action due to \`rules:when\` clause with no \`workflow:rules\``,
      ]
    : [];
};
