import type { FileDefinition, JobDefinition } from '../definition.ts';

/** Checks the jobs of a file against its stages and each other. Returns the first problem, or null. */
export const checkJobs = ({ jobs, stages }: FileDefinition): string | null => {
  const order = new Map(stages.map((stage, index) => [stage, index]));
  const byName = new Map(jobs.map((each) => [each.job.name, each]));
  for (const each of jobs) {
    const { name, stage } = each.job;
    if (!order.has(stage)) {
      return `${name} job: chosen stage ${stage} does not exist; available stages are ${stages.join(', ')}`;
    }
  }
  const context: Context = { order, byName, byBase: new Map(jobs.map((each) => [each.base_name, each])) };
  for (const each of jobs) {
    const problem = dependencyProblem(each, context) ?? needProblem(each, context) ?? stopProblem(each, context);
    if (problem !== null) return `${each.job.name} job: ${problem}`;
  }
  const circle = findCircle(jobs, byName);
  return circle && `The pipeline has circular dependencies: ${circle.join(', ')}`;
};

interface Context {
  readonly order: ReadonlyMap<string, number>;
  readonly byName: ReadonlyMap<string, JobDefinition>;
  readonly byBase: ReadonlyMap<string, JobDefinition>;
}

const isLater = (other: JobDefinition, { job }: JobDefinition, { order }: Context): boolean =>
  (order.get(other.job.stage) ?? 0) > (order.get(job.stage) ?? 0);

const dependencyProblem = (each: JobDefinition, context: Context): string | null => {
  for (const name of each.job.dependencies ?? []) {
    const other = context.byName.get(name);
    if (!other) return `undefined dependency: ${name}`;
    if (isLater(other, each, context)) return `dependency ${name} is not defined in current or prior stages`;
  }
  return null;
};

const needProblem = (each: JobDefinition, context: Context): string | null => {
  const needs = [...(each.job.needs ?? []), ...(each.rules ?? []).flatMap((rule) => rule.needs ?? [])];
  for (const { name, optional } of needs) {
    const other = context.byName.get(name);
    if (!other) {
      if (optional) continue;
      return `undefined need: ${name}`;
    }
    if (isLater(other, each, context)) return `need ${name} is not defined in current or prior stages`;
  }
  return null;
};

const stopProblem = ({ job: { environment } }: JobDefinition, { byName, byBase }: Context): string | null => {
  if (!environment?.on_stop) return null;
  const name = environment.on_stop;
  const stop = (byName.get(name) ?? byBase.get(name))?.job;
  if (!stop) return `on_stop job ${name} is not defined`;
  if (!stop.environment) return `on_stop job ${name} does not have environment defined`;
  if (stop.environment.name !== environment.name) return `on_stop job ${name} have different environment name`;
  return stop.environment.action === 'stop' ? null : `on_stop job ${name} needs to have action stop defined`;
};

/** Returns the names of jobs that need each other in a circle, or null. By hand instead of recursion. */
const findCircle = (
  jobs: readonly JobDefinition[],
  byName: ReadonlyMap<string, JobDefinition>,
): readonly string[] | null => {
  const state = new Map<string, 'open' | 'done'>();
  for (const { job } of jobs) {
    const path = [job.name];
    for (let name = path.at(-1); name !== undefined; name = path.at(-1)) {
      if (state.get(name) === 'done' || state.get(name) === 'open') {
        state.set(name, 'done');
        path.pop();
        continue;
      }
      state.set(name, 'open');
      for (const need of byName.get(name)?.job.needs ?? []) {
        if (state.get(need.name) === 'open') {
          const circle = path.slice(path.indexOf(need.name)).filter((each) => state.get(each) === 'open');
          return [...circle, need.name];
        }
        if (!state.has(need.name)) path.push(need.name);
      }
    }
  }
  return null;
};
