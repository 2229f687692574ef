import { readDependencies } from '#domains/ci/dependencies.ts';
import { readGivenVariables } from '#domains/ci/given-variables.ts';
import { jobVariables, predefinedVariables } from '#domains/ci/predefined.ts';
import { jobsByIds, pipelinesByIds } from '#domains/ci/queries.ts';
import { openGivenValue } from '#domains/ci/sealed-values.ts';
import { readUserVariables } from '#domains/ci/user-variables.ts';
import type { CompiledJob } from '#domains/ci-config/model.ts';
import { expandText, valuesOf } from '#domains/ci-config/variables.ts';
import { variablesFor } from '#domains/ci-variables/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Tx } from '#platform/context.ts';
import { isWebAddress } from '#platform/urls.ts';
import { type EnvironmentRow, environmentVariables, problemsOf } from './model.ts';

interface AddressedJob {
  readonly id: number;
  readonly pipeline_id: number;
  readonly options: CompiledJob;
}

/**
 * Returns the address of an environment: the URL of the CI file with the variables of its job, among them those that
 * came with the pipeline, and those that the job and earlier jobs left in dotenv reports. Null if the result is no web address.
 */
export const addressOf = async (
  tx: Tx,
  project: ProjectRow,
  environment: EnvironmentRow,
  url: string,
  job: AddressedJob,
): Promise<string | null> => {
  const address = url.includes('$') || url.includes('%') ? await expanded(tx, project, environment, url, job) : url;
  if (address === null || !isWebAddress(address)) return null;
  return problemsOf({ name: environment.name, external_url: address }).external_url === undefined ? address : null;
};

const expanded = async (
  tx: Tx,
  project: ProjectRow,
  environment: EnvironmentRow,
  url: string,
  job: AddressedJob,
): Promise<string | null> => {
  const pipeline = (await pipelinesByIds(tx, [job.pipeline_id])).get(job.pipeline_id);
  if (!pipeline) return null;
  const row = (await jobsByIds(tx, [job.id])).get(job.id);
  if (!row) return null;
  const asking = [{ job: row, options: job.options }];
  const given = (await readGivenVariables(tx, asking, await readDependencies(tx, asking))).get(job.id);
  const [commit = null] = await tx.services.git.readCommits(project.disk_path, pipeline.sha ? [pipeline.sha] : []);
  const left = await tx.db
    .selectFrom('job_variables')
    .select(['key', 'sealed_value'])
    .where('job_id', '=', job.id)
    .where('source', '=', 'dotenv')
    .execute();
  const values = [
    ...(await predefinedVariables(tx, project, pipeline, commit)),
    ...jobVariables(tx, row, job.options),
    ...environmentVariables(environment, job.options.environment),
    ...job.options.variables,
    ...(await readUserVariables(tx, row.user_id)),
    ...(given?.dotenv ?? []),
    ...(await variablesFor(tx, project, { protected: pipeline.protected, environment: environment.name })).filter(
      ({ masked }) => !masked,
    ),
    ...(given?.pipeline ?? []),
    ...(given?.manual ?? []),
    ...left.map(({ key, sealed_value }) => ({ key, value: openGivenValue(tx, sealed_value) })),
  ];
  const valueFor = valuesOf(values.map(({ key, value }) => ({ key, value, raw: true })));
  // A value may refer to others once more.
  return expandText(expandText(url, valueFor), valueFor);
};
