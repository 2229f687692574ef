import { sql } from 'kysely';
import { lockGroupFor } from '#domains/groups/locks.ts';
import { type GroupRow, getGroup } from '#domains/groups/queries.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import {
  findProjectByRunnersToken,
  newRegistrationToken,
  replaceRunnersToken,
} from '#domains/projects/runners-token.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { forbidden } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { digestToken } from '#platform/secrets.ts';
import { insertRunner, type NewRunner, placeScope } from './commands.ts';
import { registrationTokenReset } from './events.ts';
import type { CreatedRunner } from './model.ts';

// The older way to create runners: a token that everybody shares who installs runners (reference: neighbours G). It needs
// the setting `allow_runner_registration_token`.

/** The owner of the runners that a token registers. */
export type RegistrationPlace =
  | { readonly kind: 'instance' }
  | { readonly kind: 'group' | 'project'; readonly id: IdOrPath };

/**
 * Gives the instance, group or project a new registration token, and returns it. The old one ends; registered runners
 * stay. For those who may create runners there.
 *
 * @throws DomainError `not_found` (Group, Project), `forbidden`, also while registration tokens are not allowed
 */
export const resetRegistrationToken = async (ctx: Context, place: RegistrationPlace): Promise<string> => {
  await requireAllowed(ctx);
  return ctx.transaction(async (tx) => {
    const owner = await lockPlace(tx, place);
    await sql`select pg_advisory_xact_lock(hashtextextended('millrace:registration-tokens', 0))`.execute(tx.db);
    const namespace_id = place.kind === 'group' ? (owner?.id ?? null) : null;
    const project_id = place.kind === 'project' ? (owner?.id ?? null) : null;
    await tx.db
      .deleteFrom('runner_registration_tokens')
      .where('namespace_id', 'is not distinct from', namespace_id)
      .where('project_id', 'is not distinct from', project_id)
      .execute();
    const { token, subject } =
      project_id === null
        ? await insertToken(tx, namespace_id)
        : { token: await replaceRunnersToken(tx, project_id), subject: { type: 'Project', id: project_id } };
    tx.emit(registrationTokenReset, { ...placeScope(owner), subject, payload: { namespace_id, project_id } });
    return token;
  });
};

/** Inserts the token of a group or the instance. That of a project is in its record (`runners_token`). */
const insertToken = async ({ db }: Tx, namespace_id: number | null) => {
  const token = newRegistrationToken();
  const { id } = await db
    .insertInto('runner_registration_tokens')
    .values({ namespace_id, digest: digestToken(token) })
    .returning('id')
    .executeTakeFirstOrThrow();
  return { token, subject: { type: 'RunnerRegistrationToken', id } };
};

const lockPlace = async (tx: Tx, place: RegistrationPlace): Promise<GroupRow | ProjectRow | null> => {
  if (place.kind === 'group') return lockGroupFor(tx, await getGroup(tx, place.id), 'create_runner');
  if (place.kind === 'project') return lockProjectFor(tx, await getProject(tx, place.id), 'create_runner');
  requireAdministrator(tx);
  return null;
};

/**
 * Creates the runner that shows a registration token. It has no creator.
 *
 * @throws DomainError `forbidden` for a wrong token and while registration tokens are not allowed, `invalid` by attribute
 */
export const registerRunner = async (
  { services, requestId, client, signal, log }: Context,
  token: string,
  input: Omit<NewRunner, 'runner_type' | 'group_id' | 'project_id'>,
): Promise<CreatedRunner> => {
  // The token gives the right, and names no user.
  const hub = createContextFactory(services)({ actor: systemActor, requestId, client, signal, log });
  const settings = await requireAllowed(hub);
  return hub.transaction(async (tx) => {
    const row = await tx.db
      .selectFrom('runner_registration_tokens')
      .select(['namespace_id', 'project_id'])
      .where('digest', '=', digestToken(token))
      .forShare()
      .executeTakeFirst();
    const namespace_id = row?.namespace_id ?? null;
    const project_id = row ? row.project_id : await findProjectByRunnersToken(tx, token);
    if (!row && project_id === null) throw forbidden('invalid token supplied');
    const kind = namespace_id !== null ? 'group' : project_id !== null ? 'project' : 'instance';
    if (kind !== 'instance' && !settings.valid_runner_registrars.includes(kind)) throw forbidden(DISALLOWED);
    const place =
      namespace_id !== null
        ? await getGroup(tx, { id: namespace_id })
        : project_id !== null
          ? await getProject(tx, { id: project_id })
          : null;
    const by = { creator_id: null, origin_id: null };
    return insertRunner(tx, settings, place, { ...input, runner_type: `${kind}_type` }, by);
  });
};

const DISALLOWED = 'runner registration disallowed';

const requireAllowed = async (ctx: Context) => {
  const settings = await getSettings(ctx);
  if (!settings.allow_runner_registration_token) throw forbidden(DISALLOWED);
  return settings;
};
