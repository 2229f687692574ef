import { sql } from 'kysely';
import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import { lockGroupFor } from '#domains/groups/locks.ts';
import { type GroupRow, getGroup } from '#domains/groups/queries.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { projectScope } from '#domains/projects/model.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { StoredSettings } from '#domains/settings/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { provenance } from '#domains/tokens/origins.ts';
import { requireUser } from '#domains/users/policy.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badParameters, forbidden, requireValid, tooLong } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { isStorable } from '#platform/values/storable.ts';
import { runnerCreated } from './events.ts';
import {
  type CreatedRunner,
  MAX_DESCRIPTION,
  MAX_MAINTENANCE_NOTE,
  MAX_TAG,
  MAX_TAGS,
  RUNNER_TOKEN_PREFIX,
  type RunnerAccessLevel,
  type RunnerRow,
  type RunnerType,
  shortTokenOf,
} from './model.ts';
import { runnerFields } from './queries.ts';

/** The attributes that people set on a runner. Absent attributes of a new runner get their default. */
export interface RunnerAttributes {
  readonly description?: string | null | undefined;
  readonly maintenance_note?: string | null | undefined;
  readonly paused?: boolean | undefined;
  /** Whether it takes only the jobs of its own project. Has no effect on other runners, which are never locked. */
  readonly locked?: boolean | undefined;
  readonly run_untagged?: boolean | undefined;
  readonly tag_list?: readonly string[] | undefined;
  readonly access_level?: RunnerAccessLevel | undefined;
  /** Maximum duration of a job, in seconds. */
  readonly maximum_timeout?: number | null | undefined;
}

export interface NewRunner extends RunnerAttributes {
  readonly runner_type: RunnerType;
  /** Required for a runner of a group, or of a project. Ignored for other types. */
  readonly group_id?: number | null | undefined;
  readonly project_id?: number | null | undefined;
}

/**
 * Creates a runner of the instance (administrators), of a group or of a project (its owners), with its authentication
 * token (specification 2 §4.1). The setting `valid_runner_registrars` says where owners can create runners.
 *
 * @throws `parameters` when the target is missing, `not_found` when the caller cannot see it, `forbidden`, `invalid` by
 * attribute
 */
export const createRunner = async (ctx: Context, input: NewRunner): Promise<CreatedRunner> => {
  const creator_id = requireUser(ctx);
  const settings = await getSettings(ctx);
  return ctx.transaction(async (tx) => {
    const place = await placeOf(tx, input);
    requireRegistrar(tx, settings, input.runner_type);
    const { origin_id } = await provenance(tx);
    return insertRunner(tx, settings, place, input, { creator_id, origin_id });
  });
};

/**
 * Inserts a runner of the group, the project or the instance (null), with a new token. The caller has checked the rights.
 *
 * @throws DomainError `invalid` by attribute
 */
export const insertRunner = async (
  tx: Tx,
  settings: StoredSettings,
  place: GroupRow | ProjectRow | null,
  input: NewRunner,
  by: { readonly creator_id: number | null; readonly origin_id: string | null },
): Promise<CreatedRunner> => {
  const tags = tidyTags(input.tag_list ?? []);
  checkRunner(input, tags);
  const token = RUNNER_TOKEN_PREFIX + randomToken();
  const isOfProject = place !== null && 'namespace' in place;
  const runner = await tx.db
    .insertInto('runners')
    .values({
      runner_type: input.runner_type,
      namespace_id: place === null || isOfProject ? null : place.id,
      project_id: isOfProject ? place.id : null,
      ...by,
      digest: digestToken(token),
      short_token: shortTokenOf(token),
      token_expires_at: expiryOf(settings, input.runner_type, place),
      description: input.description ?? '',
      maintenance_note: input.maintenance_note ?? null,
      paused: input.paused ?? false,
      locked: isOfProject && (input.locked ?? false),
      run_untagged: input.run_untagged ?? true,
      tags,
      access_level: input.access_level ?? 'not_protected',
      maximum_timeout: input.maximum_timeout ?? null,
    })
    .returning(runnerFields)
    .executeTakeFirstOrThrow();
  emitRunnerEvent(tx, runnerCreated, runner, place);
  return { ...runner, token };
};

/**
 * Locks the group or project that the runner is for, and returns it after it has checked that the caller owns it. Null for
 * the instance.
 */
const placeOf = async (
  tx: Tx,
  { runner_type, group_id, project_id }: NewRunner,
): Promise<GroupRow | ProjectRow | null> => {
  if (runner_type === 'instance_type') {
    requireAdministrator(tx);
    return null;
  }
  if (runner_type === 'group_type') {
    if (group_id == null) throw badParameters('group_id is missing');
    return lockGroupFor(tx, await getGroup(tx, { id: group_id }), 'create_runner');
  }
  if (project_id == null) throw badParameters('project_id is missing');
  return lockProjectFor(tx, await getProject(tx, { id: project_id }), 'create_runner');
};

const requireRegistrar = ({ actor }: Tx, settings: StoredSettings, type: RunnerType): void => {
  if (actor.isAdmin || settings.valid_runner_registrars.some((kind) => type === `${kind}_type`)) return;
  throw forbidden();
};

/** Returns the tags without spaces around them, each once. */
export const tidyTags = (tags: readonly string[]): string[] => [
  ...new Set(tags.map((tag) => tag.trim()).filter((tag) => tag !== '')),
];

type CheckedAttributes = Pick<NewRunner, 'description' | 'maintenance_note' | 'run_untagged' | 'maximum_timeout'>;

/** @throws DomainError `invalid` by attribute */
export const checkRunner = (input: CheckedAttributes, tags: readonly string[]): void => {
  const errors: Record<string, string[]> = {};
  const texts = { description: MAX_DESCRIPTION, maintenance_note: MAX_MAINTENANCE_NOTE } as const;
  for (const field of ['description', 'maintenance_note'] as const) {
    const value = input[field] ?? '';
    if (isLongerThan(value, texts[field])) errors[field] = [tooLong(texts[field])];
    else if (!isStorable(value)) errors[field] = ['is invalid'];
  }
  if (tags.length > MAX_TAGS) errors.tag_list = [`has too many tags (maximum is ${MAX_TAGS})`];
  else if (!tags.every((tag) => tag.length <= MAX_TAG && isStorable(tag))) errors.tag_list = ['is invalid'];
  else if (tags.length === 0 && input.run_untagged === false) {
    errors.tag_list = ['can not be empty when runner is not allowed to pick untagged jobs'];
  }
  if (input.maximum_timeout != null && input.maximum_timeout <= 0) errors.maximum_timeout = ['must be greater than 0'];
  requireValid(errors);
};

/** Returns when a new token expires: after the shortest lifetime in the settings and the project. Null means never. */
export const expiryOf = (settings: StoredSettings, type: string, place: GroupRow | ProjectRow | null) => {
  const limits =
    type === 'instance_type'
      ? [settings.runner_token_expiration_interval]
      : type === 'group_type'
        ? [settings.group_runner_token_expiration_interval]
        : [settings.project_runner_token_expiration_interval];
  if (place !== null && 'namespace' in place) limits.push(place.runner_token_expiration_interval);
  const seconds = limits.filter((each) => each !== null);
  return seconds.length === 0 ? null : sql<string>`now() + make_interval(secs => ${Math.min(...seconds)})`;
};

/** Emits an event about a runner in the scope of its group, project or the instance. */
export const emitRunnerEvent = (
  tx: Tx,
  definition: typeof runnerCreated,
  runner: RunnerRow,
  place: GroupRow | ProjectRow | null,
): void => tx.emit(definition, aboutRunner(runner, place));

/** Returns who may read events about runners of the group, the project or the instance (null). */
export const placeScope = (place: GroupRow | ProjectRow | null) => ({
  ...(place === null ? {} : 'namespace' in place ? projectScope(place) : { namespace_ids: place.traversal_ids }),
  min_access_level: place !== null && 'namespace' in place ? MAINTAINER : OWNER,
});

/** Returns what an event about a runner says, and who may read it. */
export const aboutRunner = (runner: RunnerRow, place: GroupRow | ProjectRow | null) => {
  const { id, runner_type, namespace_id, project_id, description, creator_id, origin } = runner;
  return {
    ...placeScope(place),
    subject: { type: 'Runner', id },
    payload: { id, runner_type, namespace_id, project_id, description, creator_id, origin },
  };
};
