import type { Selectable } from 'kysely';
import type { CredentialOrigin } from '#domains/tokens/origins.ts';
import type { Runners } from '#platform/db/tables.ts';

/** The projects whose jobs a runner takes: all of the instance, those of a group and its subgroups, or one project. */
export const RUNNER_TYPES = ['instance_type', 'group_type', 'project_type'] as const;
export type RunnerType = (typeof RUNNER_TYPES)[number];

/** Whether it takes jobs of all branches and tags, or only of protected ones. */
export const RUNNER_ACCESS_LEVELS = ['not_protected', 'ref_protected'] as const;
export type RunnerAccessLevel = (typeof RUNNER_ACCESS_LEVELS)[number];

export const RUNNER_STATUSES = ['online', 'offline', 'stale', 'never_contacted'] as const;
export type RunnerStatus = (typeof RUNNER_STATUSES)[number];

/** The statuses of version 5 of the API (specification 3 §9). None of them is about age, unlike `stale`. */
export const CONTACT_STATUSES = ['online', 'offline', 'not_connected'] as const;
export type ContactStatus = (typeof CONTACT_STATUSES)[number];

/** Tools recognise a runner's token by this prefix. */
export const RUNNER_TOKEN_PREFIX = 'glrt-';

/** How many characters after the prefix runners print in their logs. They carry 54 of the 162 bits. */
const SHORT_TOKEN = 9;

/** Returns the part of a token by which a runner names itself in its logs. */
export const shortTokenOf = (token: string): string =>
  token.slice(RUNNER_TOKEN_PREFIX.length, RUNNER_TOKEN_PREFIX.length + SHORT_TOKEN);

/** All columns except the token digest and the origin, with the computed status. */
export interface RunnerRow extends Omit<Selectable<Runners>, 'digest' | 'origin_id'> {
  readonly status: RunnerStatus;
  readonly origin: CredentialOrigin | null;
}

export interface CreatedRunner extends RunnerRow {
  /** Returned only here. */
  readonly token: string;
}

export const MAX_MAINTENANCE_NOTE = 1_024;
export const MAX_DESCRIPTION = 1_024;
export const MAX_TAGS = 50;
export const MAX_TAG = 255;
