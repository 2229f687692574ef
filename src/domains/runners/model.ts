import type { Selectable } from 'kysely';
import type { Runners } from '#platform/db/tables.ts';

/** Whose jobs a runner takes: of the whole hub, of a group and what is below it, or of a project. */
export const RUNNER_TYPES = ['instance_type', 'group_type', 'project_type'] as const;
export type RunnerType = (typeof RUNNER_TYPES)[number];

/** Whether it takes the jobs of all branches and tags, or of protected ones alone. */
export const RUNNER_ACCESS_LEVELS = ['not_protected', 'ref_protected'] as const;
export type RunnerAccessLevel = (typeof RUNNER_ACCESS_LEVELS)[number];

export type RunnerStatus = 'online' | 'offline' | 'stale' | 'never_contacted';

/** Tools know a runner's token by this. */
export const RUNNER_TOKEN_PREFIX = 'glrt-';

/** All columns but the digest of the token, and whether it is about. */
export interface RunnerRow extends Omit<Selectable<Runners>, 'digest'> {
  readonly status: RunnerStatus;
}

export interface CreatedRunner extends RunnerRow {
  /** The only time that it is seen. */
  readonly token: string;
}

export const MAX_MAINTENANCE_NOTE = 1_024;
export const MAX_DESCRIPTION = 1_024;
export const MAX_TAGS = 50;
export const MAX_TAG = 255;
