import { z } from 'zod';
import { namespaceWebUrl } from '#domains/groups/model.ts';
import { namespacesByIds } from '#domains/groups/queries.ts';
import { nameWithNamespace } from '#domains/projects/model.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { only } from '#platform/values/only.ts';
import { changedInV5, removedInV5 } from '#rest/v5.ts';
import { latestManagers, type ManagerRow } from './manager-queries.ts';
import { CONTACT_STATUSES, type RunnerRow } from './model.ts';
import { projectsOfRunners } from './queries.ts';

/** The facts that a runner sends about its machine. A runner may run on several. */
const ofManager = removedInV5(z.string().nullable(), { replacedBy: 'GET /runners/:id/managers' });

/** Only the contact: `paused` says whether it takes jobs. */
const status = changedInV5(z.string(), {
  note: `is one of ${CONTACT_STATUSES.join(', ')}`,
  to: z.enum(CONTACT_STATUSES),
  convert: (value, { online, contacted_at }) => {
    if (value === 'online') return value;
    return online === null || contacted_at === null ? 'not_connected' : 'offline';
  },
});

const basic = {
  id: z.int(),
  description: z.string(),
  ip_address: ofManager,
  active: removedInV5(z.boolean().describe('The opposite of `paused`.'), { replacedBy: 'paused' }),
  paused: z.boolean(),
  is_shared: z.boolean(),
  runner_type: z.string(),
  name: z.string().nullable(),
  online: z.boolean().nullable().describe('Null if it was never in contact.'),
  status,
  created_at: z.string(),
  created_by: userBasicRecord.nullable(),
};

export const runnerRecord = z.object(basic).meta({ id: 'Runner' });

export const runnerDetailRecord = z
  .object({
    ...basic,
    tag_list: z.array(z.string()),
    run_untagged: z.boolean(),
    locked: z.boolean(),
    maximum_timeout: z.int().nullable(),
    access_level: z.string(),
    version: ofManager,
    revision: ofManager,
    platform: ofManager,
    architecture: ofManager,
    contacted_at: z.string().nullable(),
    maintenance_note: z.string().nullable(),
    projects: z.array(
      z.object({
        id: z.int(),
        name: z.string(),
        name_with_namespace: z.string(),
        path: z.string(),
        path_with_namespace: z.string(),
      }),
    ),
    groups: z.array(z.object({ id: z.int(), name: z.string(), web_url: z.string() })),
  })
  .meta({ id: 'RunnerDetail' });

/** Address and version are those of the manager that was in contact last. */
export const toRunners = async (ctx: Context, rows: readonly RunnerRow[]): Promise<z.output<typeof runnerRecord>[]> => {
  const [managers, users] = await Promise.all([
    latestManagers(
      ctx,
      rows.map(({ id }) => id),
    ),
    userBasicsByIds(
      ctx,
      rows.map(({ creator_id }) => creator_id),
    ),
  ]);
  return rows.map((row) => {
    return {
      ...toJobRunner(row),
      ip_address: managers.get(row.id)?.ip_address ?? null,
      created_at: isoTime(row.created_at),
      created_by: users.get(row.creator_id) ?? null,
    };
  });
};

/** With the projects and the group that the caller can see. */
export const toRunnerDetail = async (ctx: Context, row: RunnerRow): Promise<z.output<typeof runnerDetailRecord>> => {
  const [records, managers, projects, groups] = await Promise.all([
    toRunners(ctx, [row]),
    latestManagers(ctx, [row.id]),
    projectsOfRunners(ctx, [row.id]),
    namespacesByIds(ctx, row.namespace_id === null ? [] : [row.namespace_id]),
  ]);
  const { version = null, revision = null, platform = null, architecture = null } = managers.get(row.id) ?? {};
  return {
    ...only(records),
    tag_list: row.tags,
    run_untagged: row.run_untagged,
    locked: row.locked,
    maximum_timeout: row.maximum_timeout,
    access_level: row.access_level,
    ...{ version, revision, platform, architecture },
    contacted_at: isoTime(row.contacted_at),
    maintenance_note: row.maintenance_note,
    projects: (projects.get(row.id) ?? []).map((project) => ({
      id: project.id,
      name: project.name,
      name_with_namespace: nameWithNamespace(project),
      path: project.path,
      path_with_namespace: project.full_path,
    })),
    groups: [...groups.values()].map((group) => ({
      id: group.id,
      name: group.name,
      web_url: namespaceWebUrl(ctx, group),
    })),
  };
};

export const managerRecord = z
  .object({
    id: z.int(),
    system_id: z.string(),
    version: z.string().nullable(),
    revision: z.string().nullable(),
    platform: z.string().nullable(),
    architecture: z.string().nullable(),
    created_at: z.string(),
    contacted_at: z.string().nullable(),
    ip_address: z.string().nullable(),
    status,
    job_execution_status: z.string(),
  })
  .meta({ id: 'RunnerManager' });

export const toManager = (row: ManagerRow): z.output<typeof managerRecord> => ({
  id: row.id,
  system_id: row.system_id,
  version: row.version,
  revision: row.revision,
  platform: row.platform,
  architecture: row.architecture,
  created_at: isoTime(row.created_at),
  contacted_at: isoTime(row.contacted_at),
  ip_address: row.ip_address,
  status: row.status,
  job_execution_status: row.job_execution_status,
});

/** The runner of a job, for everyone who can see the job: without its address and who created it. */
export const jobRunnerRecord = z
  .object(basic)
  .omit({ ip_address: true, created_at: true, created_by: true })
  .meta({ id: 'JobRunner' });

export const toJobRunner = (row: RunnerRow): z.output<typeof jobRunnerRecord> => ({
  id: row.id,
  description: row.description,
  active: !row.paused,
  paused: row.paused,
  is_shared: row.runner_type === 'instance_type',
  runner_type: row.runner_type,
  name: null,
  online: row.contacted_at === null ? null : row.status === 'online',
  status: row.status,
});
