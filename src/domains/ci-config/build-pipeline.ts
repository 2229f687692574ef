import { ConfigError } from './config-error.ts';
import type { FileDefinition, JobDefinition, Rule } from './definition.ts';
import type { CompiledJob, CompiledPipeline, CompileInput, FileVariable, Need, Variable } from './model.ts';
import { isIncluded, type RefContext } from './ref-policies.ts';
import { matchingRule, type RuleContext } from './rules.ts';
import { letOthersGo } from './turns.ts';
import { type ExpansionBudget, expandText, expandVariables, isTemplate, valuesOf } from './variables.ts';

const MAX_NEEDS = 50;
/** The characters that the variables of all jobs may expand to, where rules ask for them or circles are looked for. */
const MAX_EXPANDED = 50_000_000;

export interface BuiltPipeline {
  readonly pipeline: CompiledPipeline;
  readonly excluded_by: 'workflow' | 'rules' | null;
}

export interface PipelineFacts extends Pick<CompileInput, 'ref' | 'source' | 'predefined' | 'variables'> {
  readonly tag: boolean;
  readonly merge_request: boolean;
  readonly project_path: string;
  readonly conditions: Omit<RuleContext, 'valueFor'>;
}

/** Lets the rules decide which jobs a pipeline has. @throws ConfigError for needs that no job meets */
export const buildPipeline = async (file: FileDefinition, facts: PipelineFacts): Promise<BuiltPipeline> => {
  const { workflow } = file;
  const budget = { left: MAX_EXPANDED };
  const ofRoot = lookup(facts, file.variables, budget);
  const rule = workflow.rules && (await matchingRule(workflow.rules, { ...facts.conditions, valueFor: ofRoot }));
  const isBlocked = workflow.rules !== null && (rule === null || rule.when === 'never');
  const rootVariables = merged(file.variables, rule?.variables ?? []);
  const name = workflow.name === null ? null : expanded(workflow.name, lookup(facts, rootVariables, budget)).trim();
  const pipeline: CompiledPipeline = {
    stages: file.stages,
    jobs: [],
    name: name === '' ? null : (name?.slice(0, 255) ?? null),
    auto_cancel: {
      on_new_commit: rule?.auto_cancel?.on_new_commit ?? workflow.auto_cancel.on_new_commit ?? 'conservative',
      on_job_failure: rule?.auto_cancel?.on_job_failure ?? workflow.auto_cancel.on_job_failure ?? 'none',
    },
  };
  if (isBlocked) return { pipeline, excluded_by: 'workflow' };
  const jobs: CompiledJob[] = [];
  for (const definition of file.jobs) {
    await letOthersGo();
    const job = await decide(definition, rootVariables, facts, budget, workflow.rules === null);
    if (job) jobs.push(job);
  }
  // A pipeline of only .pre and .post jobs does not run.
  const hasMiddle = jobs.some(({ stage }) => stage !== '.pre' && stage !== '.post');
  if (!hasMiddle) return { pipeline, excluded_by: 'rules' };
  requireNeeds(jobs);
  requireNoCircles(jobs, facts.variables, budget);
  return { pipeline: { ...pipeline, jobs }, excluded_by: null };
};

/** Returns the job as the rules change it, or null if they leave it out. */
const decide = async (
  definition: JobDefinition,
  rootVariables: readonly FileVariable[],
  facts: PipelineFacts,
  budget: ExpansionBudget,
  hasUsualOnly: boolean,
): Promise<CompiledJob | null> => {
  const { job, rules, only, except, root_variables } = definition;
  const inherited =
    typeof root_variables === 'boolean'
      ? root_variables
        ? rootVariables
        : []
      : rootVariables.filter(({ key }) => root_variables.includes(key));
  const variables = merged(inherited, job.variables);
  const context: RefContext = { ...facts, ...facts.conditions, valueFor: lookup(facts, variables, budget, job) };
  if (rules === null) {
    return (await isIncluded(only, except, context, hasUsualOnly)) ? { ...job, variables } : null;
  }
  const rule = await matchingRule(rules, context);
  return rule && applied(rule, definition, variables);
};

const applied = (
  rule: Rule,
  { job, says_allow_failure }: JobDefinition,
  variables: readonly FileVariable[],
): CompiledJob | null => {
  const when = rule.when ?? job.when;
  if (when === 'never') return null;
  // Outside of rules a manual job may fail unless the file says otherwise. A rule that makes it manual lets it block.
  const usual = says_allow_failure || rule.when === null ? job.allow_failure : false;
  return {
    ...job,
    when,
    start_in: when === 'delayed' ? (rule.start_in ?? job.start_in) : null,
    allow_failure: rule.allow_failure ?? usual,
    allow_failure_exit_codes:
      rule.allow_failure_exit_codes ?? (rule.allow_failure === null ? job.allow_failure_exit_codes : []),
    variables: merged(variables, rule.variables),
    needs: rule.needs ?? job.needs,
    interruptible: rule.interruptible ?? job.interruptible,
  };
};

/** Variables in both keep the place of the first and get the value of the second. */
const merged = (under: readonly FileVariable[], over: readonly FileVariable[]): readonly FileVariable[] =>
  over.length === 0 ? under : [...new Map([...under, ...over].map((each) => [each.key, each])).values()];

/** Returns the values that rules see: those of the file are between the predefined ones and those of the project. */
const lookup = (
  { predefined = [], variables }: PipelineFacts,
  ofFile: readonly FileVariable[],
  budget: ExpansionBudget,
  job?: CompiledJob,
): ((name: string) => string | null) => {
  const ofJob: Variable[] = job
    ? [
        { key: 'CI_JOB_NAME', value: job.name, raw: true },
        { key: 'CI_JOB_STAGE', value: job.stage, raw: true },
        ...(job.parallel
          ? [
              { key: 'CI_NODE_INDEX', value: String(job.parallel.index) },
              { key: 'CI_NODE_TOTAL', value: String(job.parallel.total) },
            ]
          : []),
      ]
    : [];
  // Computed when a rule first asks, because most jobs have none.
  let valueFor: ((name: string) => string | undefined) | null = null;
  return (name) => {
    valueFor ??= valuesOf(expandVariables([...predefined, ...ofJob, ...ofFile, ...variables], budget));
    return valueFor(name) ?? null;
  };
};

const expanded = (text: string, valueFor: (name: string) => string | null): string =>
  expandText(text, (name) => valueFor(name) ?? '');

/** @throws ConfigError if variables of a job refer to each other in a circle, also by way of those given to the pipeline */
const requireNoCircles = (jobs: readonly CompiledJob[], given: readonly Variable[], budget: ExpansionBudget): void => {
  const fixed = new Set(given.map(({ key }) => key));
  const templates = given.filter(isTemplate);
  // Most jobs share the variables of the file.
  const checked = new Set<string>();
  for (const { name, variables } of jobs) {
    const own = variables.filter((variable) => isTemplate(variable) && !fixed.has(variable.key));
    const text = JSON.stringify(own);
    if (own.length === 0 || checked.has(text)) continue;
    checked.add(text);
    try {
      expandVariables([...own, ...templates], budget);
    } catch (error) {
      throw error instanceof ConfigError ? new ConfigError(`${name}: ${error.message}`) : error;
    }
  }
};

/** @throws ConfigError if a job needs one that is not part of the pipeline */
const requireNeeds = (jobs: readonly CompiledJob[]): void => {
  const names = new Set(jobs.map(({ name }) => name));
  const problems = jobs.flatMap(({ name, needs }) => [
    ...missingNeeds(needs ?? [], names).map(
      (need) =>
        `'${name}' job needs '${need}' job, but '${need}' does not exist in the pipeline. This might be because of the only, except, or rules keywords. To need a job that sometimes does not exist in the pipeline, use needs:optional.`,
    ),
    ...(needs && needs.length > MAX_NEEDS
      ? [
          `${name}: one job can only need ${MAX_NEEDS} others, but you have listed ${needs.length}. See needs keyword documentation for more details`,
        ]
      : []),
  ]);
  const [first] = problems;
  if (first !== undefined) throw new ConfigError(first);
};

const missingNeeds = (needs: readonly Need[], names: ReadonlySet<string>): string[] =>
  needs.filter(({ name, optional }) => !optional && !names.has(name)).map(({ name }) => name);
