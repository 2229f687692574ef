import type { Selectable } from 'kysely';
import type { CredentialOrigin } from '#domains/tokens/origins.ts';
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

/** All columns but the digest of the token, whether it is about, and the application through which it was made. */
export interface RunnerRow extends Omit<Selectable<Runners>, 'digest' | 'origin_id'> {
  readonly status: RunnerStatus;
  readonly origin: CredentialOrigin | null;
}

export interface CreatedRunner extends RunnerRow {
  /** The only time that it is seen. */
  readonly token: string;
}

export const MAX_MAINTENANCE_NOTE = 1_024;
export const MAX_DESCRIPTION = 1_024;
export const MAX_TAGS = 50;
export const MAX_TAG = 255;
