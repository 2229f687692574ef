import { z } from 'zod';
import { readDuration, readExpiry } from '#platform/values/durations.ts';
import { isInnerPath, NO_INNER_PATH } from '#platform/values/inner-path.ts';
import { flag, secret, setting, storable, whole, wholeOrNull } from './define.ts';
import { hostName, httpUrl } from './values.ts';

const DAY_SECONDS = 86_400;

/** CI files, runners, jobs and artifacts. */
export const pipelines = {
  default_ci_config_path: setting(
    storable(255).refine(isInnerPath, NO_INNER_PATH).nullable().default(null),
    'Path of the CI file of projects that set none, as in `ci_config_path` of a project. Null means `.gitlab-ci.yml`.',
  ),
  shared_runners_enabled: flag(
    true,
    'Whether new projects use the runners of the instance, unless the project says otherwise. Forks and imported projects follow their source.',
  ),
  ci_max_includes: whole(0, 10_000, 150, 'Number of files that a CI file may include, nested includes counted.'),
  ci_max_total_yaml_size_bytes: whole(
    1,
    2_147_483_647,
    314_572_800,
    'Maximum size of a CI file and all that it includes, in bytes.',
  ),
  downstream_pipeline_trigger_limit_per_project_user_sha: whole(
    0,
    1_000_000,
    0,
    'Number of child and downstream pipelines that the trigger jobs of a user can start in a minute for a commit of a project. Further trigger jobs fail. 0 is unlimited.',
  ),
  archive_builds_in_human_readable: setting(
    storable(255)
      .refine((text) => text === '' || (readDuration(text) ?? 0) >= DAY_SECONDS, {
        error: 'must be a duration of at least 1 day, such as 15 days, 1 month or 2 years',
      })
      .default(''),
    'Age at which jobs are archived, such as `15 days`, `1 month` or `2 years`. Archived jobs can be read, but no longer started or retried, and those that still wait for a runner fail. Empty means never.',
  ),
  valid_runner_registrars: setting(
    z
      .array(z.enum(['group', 'project']))
      .max(2)
      .default(['group', 'project']),
    'Where users other than administrators can create runners.',
  ),
  allow_runner_registration_token: flag(
    true,
    'Whether runners can be registered with registration tokens (`POST /runners`).',
  ),
  runner_token_expiration_interval: wholeOrNull(
    7_200,
    1_000_000_000,
    'Lifetime of the token of a new instance runner, in seconds. Null means that it does not expire.',
  ),
  group_runner_token_expiration_interval: wholeOrNull(
    7_200,
    1_000_000_000,
    'Lifetime of the token of a new group runner, in seconds. Null means that it does not expire.',
  ),
  project_runner_token_expiration_interval: wholeOrNull(
    7_200,
    1_000_000_000,
    'Lifetime of the token of a new project runner, in seconds. Null means that it does not expire. A shorter lifetime of the project takes precedence.',
  ),
  update_runner_versions_enabled: flag(false, 'Whether the hub asks which versions of the runner are the latest.', {
    withoutEffect: true,
  }),
  ci_jobs_trace_size_limit: whole(
    0,
    100_000,
    100,
    'Maximum size of the log of a job, in MiB. A job that prints more fails. 0 is unlimited.',
  ),
  max_artifacts_size: whole(
    0,
    1_000_000,
    100,
    'Maximum size of an artifact of a job, in MiB, unless its project or group has a limit. 0 is unlimited.',
  ),
  ci_max_artifact_size_lsif: whole(
    0,
    1_000_000,
    200,
    'Maximum size of an artifact of the type lsif, in MiB. 0 is unlimited.',
  ),
  ci_max_artifact_size_terraform: whole(
    0,
    1_000_000,
    5,
    'Maximum size of an artifact of the type terraform, in MiB. 0 is unlimited.',
  ),
  ci_max_artifact_size_cyclonedx: whole(
    0,
    1_000_000,
    1,
    'Maximum size of an artifact of the type cyclonedx, in MiB. 0 is unlimited.',
  ),
  default_artifacts_expire_in: setting(
    storable(255)
      .refine((text) => text === '0' || readExpiry(text) != null, 'must be a duration such as 30 days, or 0')
      .default('30 days'),
    'When artifacts expire whose job does not say it, such as `30 days`. 0 is never.',
  ),
  keep_latest_artifact: flag(
    true,
    'Whether the artifacts of the newest successful pipeline of each branch and tag never expire.',
  ),
  auto_devops_enabled: flag(false, 'Whether projects without a CI file get a pipeline of the hub.', {
    withoutEffect: true,
  }),
  auto_devops_domain: setting(hostName.default(''), 'Domain of the applications that such pipelines deploy.', {
    withoutEffect: true,
  }),
  external_pipeline_validation_service_url: setting(
    httpUrl.default(''),
    'Address of a service that is asked by `POST` before a pipeline with jobs is created. 406 rejects the pipeline. Any other answer, no answer in time and an address that the rules for outgoing requests exclude accept it.',
    { otherNames: ['_url'] },
  ),
  external_pipeline_validation_service_token: secret('Token for this service, sent as `X-Gitlab-Token`.', {
    otherNames: ['_token'],
  }),
  external_pipeline_validation_service_timeout: wholeOrNull(
    1,
    600,
    'How long the hub waits for this service, in seconds. Null means 5.',
  ),
};
