import { z } from 'zod';
import {
  ARTIFACT_ACCESSES,
  type CompiledJob,
  ENVIRONMENT_ACTIONS,
  RESULT_WHEN,
  RUN_WHEN,
  TRIGGER_STRATEGIES,
} from '#domains/ci-config/model.ts';

const texts = z.array(z.string());
const variables = z.array(z.object({ key: z.string(), value: z.string(), raw: z.boolean() }));
const anything = z.record(z.string(), z.unknown());

const image = z.object({
  name: z.string(),
  entrypoint: texts.nullable(),
  pull_policy: texts.nullable(),
  executor_opts: anything,
});

/** A `CompiledJob` as the column `jobs.options` stores it. */
const options: z.ZodType<CompiledJob> = z.object({
  name: z.string(),
  stage: z.string(),
  kind: z.enum(['build', 'bridge']),
  when: z.enum(RUN_WHEN),
  start_in: z.number().nullable(),
  allow_failure: z.boolean(),
  allow_failure_exit_codes: z.array(z.number()),
  needs: z.array(z.object({ name: z.string(), artifacts: z.boolean(), optional: z.boolean() })).nullable(),
  cross_needs: z.array(
    z.object({
      project: z.string().nullable(),
      ref: z.string().nullable(),
      pipeline: z.string().nullable(),
      job: z.string(),
      artifacts: z.boolean(),
    }),
  ),
  dependencies: texts.nullable(),
  script: texts,
  after_script: texts,
  image: image.nullable(),
  services: z.array(image.extend({ alias: z.string().nullable(), command: texts.nullable(), variables })),
  variables,
  tags: texts,
  timeout: z.number().nullable(),
  retry: z.object({ max: z.number(), when: texts, exit_codes: z.array(z.number()) }),
  interruptible: z.boolean(),
  resource_group: z.string().nullable(),
  environment: z
    .object({
      name: z.string(),
      url: z.string().nullable(),
      on_stop: z.string().nullable(),
      action: z.enum(ENVIRONMENT_ACTIONS),
      auto_stop_in: z.number().nullable(),
      deployment_tier: z.string().nullable(),
    })
    .nullable(),
  trigger: z
    .object({
      project: z.string().nullable(),
      branch: z.string().nullable(),
      include: z.array(z.unknown()),
      strategy: z.enum(TRIGGER_STRATEGIES).nullable(),
      forward: z.object({ yaml_variables: z.boolean(), pipeline_variables: z.boolean() }),
      inputs: anything,
    })
    .nullable(),
  release: anything.nullable(),
  coverage: z.string().nullable(),
  artifacts: z
    .object({
      name: z.string().nullable(),
      paths: texts,
      exclude: texts,
      untracked: z.boolean(),
      when: z.enum(RESULT_WHEN),
      expire_in: z.string().nullable(),
      expose_as: z.string().nullable(),
      access: z.enum(ARTIFACT_ACCESSES),
      reports: z.record(z.string(), texts),
    })
    .nullable(),
  caches: z.array(
    z.object({
      key: z.union([z.string(), z.object({ files: texts, prefix: z.string().nullable() })]),
      paths: texts,
      untracked: z.boolean(),
      policy: z.string(),
      when: z.enum(RESULT_WHEN),
      unprotect: z.boolean(),
      fallback_keys: texts,
    }),
  ),
  id_tokens: z.record(z.string(), z.object({ aud: texts })),
  hooks: z.object({ pre_get_sources_script: texts }),
  parallel: z.object({ index: z.number(), total: z.number() }).nullable(),
});

/**
 * Returns what the CI file says about a job, from its column `options`. Null for jobs that did not come from a file of
 * this hub: imported ones, and reported statuses.
 */
export const jobOptions = (row: { readonly options: unknown }): CompiledJob | null => {
  const parsed = options.safeParse(row.options);
  return parsed.success ? parsed.data : null;
};
