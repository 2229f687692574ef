import { sql } from 'kysely';
import pg from 'pg';
import { refreshAccess } from '#domains/access/commands.ts';
import { OWNER, PUBLIC } from '#domains/access/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, forbidden, invalid } from '#platform/errors.ts';
import { randomToken } from '#platform/secrets.ts';
import { requireAnotherAdministrator } from './administrators.ts';
import { attributeErrors, columnsOf, passwordErrors, type UserAttributes } from './attributes.ts';
import { userCreated, userDeleted, userUpdated } from './events.ts';
import { dismissProjects } from './leaving-projects.ts';
import { hashPassword } from './password.ts';
import { requireAdministrator } from './policy.ts';
import { getUser, type UserRow } from './queries.ts';

export interface NewUser extends UserAttributes {
  readonly email: string;
  readonly name: string;
  readonly username: string;
  /** Both make up a password that nobody knows; the user needs another way in (a token) until one is set. */
  readonly reset_password?: boolean | undefined;
  readonly force_random_password?: boolean | undefined;
}

/**
 * Creates a user with a personal namespace (specification 2 §4.1). Administrators only. Addresses that an administrator
 * gives count as confirmed.
 *
 * @throws `invalid` by attribute, `conflict` when the email address or user name is taken
 */
export const createUser = async (ctx: Context, input: NewUser): Promise<UserRow> => {
  requireAdministrator(ctx);
  const { reset_password, force_random_password, ...attributes } = input;
  const settings = await getSettings(ctx);
  const random = Boolean(reset_password || force_random_password);
  const errors = {
    ...attributeErrors(attributes),
    ...emailErrors(attributes, attributes.email),
    ...(random || attributes.password !== undefined
      ? {}
      : { password: ["can't be blank: give password, reset_password or force_random_password"] }),
    ...(random || attributes.password === undefined
      ? {}
      : passwordErrors(attributes.password, settings.minimum_password_length)),
  };
  if (Object.keys(errors).length > 0) throw invalid(errors);
  const password_hash = await hashPassword(random ? randomToken(32) : (attributes.password ?? randomToken(32)));
  const columns = columnsOf(attributes, settings.user_defaults_to_private_profile);
  return saying(() =>
    ctx.transaction(async (tx) => {
      const { id } = await tx.db
        .insertInto('users')
        .values({
          ...columns,
          email: attributes.email,
          name: attributes.name,
          username: attributes.username,
          password_hash,
          password_change_required: random,
          external: attributes.external ?? settings.user_default_external,
          private_profile: columns.private_profile ?? settings.user_defaults_to_private_profile,
          can_create_group: attributes.can_create_group ?? settings.can_create_group,
          projects_limit: attributes.projects_limit ?? settings.default_projects_limit,
          confirmed_at: sql`now()`,
          created_by_id: ctx.actor.userId,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      await addIdentity(tx, id, attributes);
      await createPersonalNamespace(tx, id, attributes);
      const user = await getUser(tx, id);
      tx.emit(userCreated, { subject: { type: 'User', id }, user_ids: [id], payload: described(user) });
      return user;
    }),
  );
};

/**
 * Changes a user; what is undefined stays. Administrators only. A new password set for someone else has to be changed
 * by them at their next sign-in.
 *
 * @throws `not_found`, `invalid` by attribute, `conflict` when the user name is taken
 */
export const updateUser = async (ctx: Context, id: number, changes: UserAttributes): Promise<UserRow> => {
  requireAdministrator(ctx);
  const settings = await getSettings(ctx);
  const found = await getUser(ctx, id);
  const errors = {
    ...attributeErrors(changes),
    ...emailErrors(changes, found.email),
    ...(changes.password === undefined ? {} : passwordErrors(changes.password, settings.minimum_password_length)),
  };
  if (Object.keys(errors).length > 0) throw invalid(errors);
  const password_hash = changes.password === undefined ? undefined : await hashPassword(changes.password);
  return saying(() =>
    ctx.transaction(async (tx) => {
      await tx.db.selectFrom('users').select('id').where('id', '=', id).forUpdate().execute();
      const before = await getUser(tx, id);
      if (before.is_admin && changes.admin === false) await requireAnotherAdministrator(tx, id);
      await tx.db
        .updateTable('users')
        .set({
          ...columnsOf(changes, settings.user_defaults_to_private_profile),
          ...(password_hash === undefined
            ? {}
            : {
                password_hash,
                password_change_required: id !== ctx.actor.userId,
                failed_attempts: 0,
                locked_until: null,
              }),
          updated_at: sql`now()`,
        })
        .where('id', '=', id)
        .execute();
      await addIdentity(tx, id, changes);
      const user = await getUser(tx, id);
      if (user.username !== before.username || user.name !== before.name) await renamePersonalNamespace(tx, user);
      const changed = changesBetween(before, user);
      if (password_hash !== undefined) changed.password = { previous: null, current: null };
      tx.emit(userUpdated, {
        subject: { type: 'User', id },
        user_ids: [id],
        payload: { ...described(user), changes: changed },
      });
      return user;
    }),
  );
};

/**
 * Removes a user with the personal namespace, its projects and all tokens; what the user wrote elsewhere stays, without
 * an author. Administrators only, and never oneself.
 *
 * @throws `not_found`, `conflict` while a group has no other owner
 */
export const deleteUser = async (ctx: Context, id: number): Promise<void> => {
  requireAdministrator(ctx);
  if (id === ctx.actor.userId) throw forbidden('You cannot remove your own account');
  await ctx.transaction(async (tx) => {
    const user = await getUser(tx, id);
    if (user.is_admin) await requireAnotherAdministrator(tx, id);
    if (await ownsGroupAlone(tx, id)) throw conflict('User cannot be removed while is the sole-owner of a group');
    const namespace = await tx.db
      .selectFrom('namespaces')
      .select('id')
      .where('owner_id', '=', id)
      .where('kind', '=', 'user')
      .forUpdate()
      .executeTakeFirst();
    const projects = namespace ? await dismissProjects(tx, [namespace.id]) : [];
    // Memberships, access, tokens, the namespace and its projects go with it.
    await tx.db.deleteFrom('users').where('id', '=', id).execute();
    tx.emit(userDeleted, {
      subject: { type: 'User', id },
      namespace_ids: [],
      payload: { ...described(user), namespace_id: namespace?.id ?? null, projects },
    });
  });
};

const described = ({ id, username, name, state }: UserRow) => ({ id, username, name, state });

/** Addresses other than the account's own would have to be confirmed first, and there is no way to do so here. */
const emailErrors = (attributes: UserAttributes, own: string): Record<string, string[]> => {
  const isOwn = (email: string) => email.toLowerCase() === own.toLowerCase();
  const errors: Record<string, string[]> = {};
  if (attributes.email !== undefined && !isOwn(attributes.email)) {
    errors.email = ['is not a confirmed address of the user'];
  }
  if (attributes.public_email && !isOwn(attributes.public_email)) {
    errors.public_email = ['is not a confirmed address of the user'];
  }
  const { commit_email } = attributes;
  if (commit_email && commit_email !== '_private' && !isOwn(commit_email)) {
    errors.commit_email = ['is not a confirmed address of the user'];
  }
  return errors;
};

const addIdentity = async (tx: Tx, user_id: number, { provider, extern_uid }: UserAttributes): Promise<void> => {
  if (provider === undefined || extern_uid === undefined) return;
  await tx.db.deleteFrom('identities').where('user_id', '=', user_id).where('provider', '=', provider).execute();
  await tx.db.insertInto('identities').values({ user_id, provider, extern_uid }).execute();
};

const createPersonalNamespace = async (
  tx: Tx,
  userId: number,
  { username, name }: { readonly username: string; readonly name: string },
): Promise<void> => {
  const { rows } = await sql<{ id: number }>`
    with next as (select nextval(pg_get_serial_sequence('namespaces', 'id')) as id)
    insert into namespaces (id, kind, owner_id, traversal_ids, name, path, full_path, full_name, visibility_level)
    select id, 'user', ${userId}::bigint, array[id], ${name}, ${username}, ${username}, ${name}, ${PUBLIC}::smallint
    from next returning id`.execute(tx.db);
  // What stands under the path now wins over what once did.
  await dropRedirects(tx, username);
  await refreshAccess(
    tx,
    rows.map((row) => row.id),
    [userId],
  );
};

const renamePersonalNamespace = async (tx: Tx, { id, username, name }: UserRow): Promise<void> => {
  const before = await tx.db
    .selectFrom('namespaces')
    .select(['id', 'full_path'])
    .where('owner_id', '=', id)
    .where('kind', '=', 'user')
    .forUpdate()
    .executeTakeFirst();
  if (!before) return;
  await tx.db
    .updateTable('namespaces')
    .set({ name, full_name: name, path: username, full_path: username, updated_at: sql`now()` })
    .where('id', '=', before.id)
    .execute();
  if (before.full_path === username) return;
  if (before.full_path.toLowerCase() !== username.toLowerCase()) {
    await sql`
      insert into redirects (path, namespace_id, project_id)
        select lower(${before.full_path}), ${before.id}::bigint, null
        union all select lower(p.full_path), null, p.id from projects p where p.namespace_id = ${before.id}
      on conflict (path) do update set namespace_id = excluded.namespace_id, project_id = excluded.project_id`.execute(
      tx.db,
    );
    await dropRedirects(tx, username);
  }
  await sql`update projects set full_path = ${username} || '/' || path where namespace_id = ${before.id}`.execute(
    tx.db,
  );
};

const dropRedirects = (tx: Tx, path: string) =>
  sql`delete from redirects where path = lower(${path}) or starts_with(path, lower(${path}) || '/')`.execute(tx.db);

const ownsGroupAlone = async (tx: Tx, userId: number): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from members m join namespaces n on n.id = m.namespace_id and n.parent_id is null
    where m.user_id = ${userId} and m.access_level = ${OWNER} and not exists (
      select 1 from members o where o.namespace_id = m.namespace_id and o.access_level = ${OWNER}
        and o.user_id is not null and o.user_id <> ${userId})
    limit 1`.execute(tx.db);
  return rows.length > 0;
};

const CHANGES_TOLD = [
  'username',
  'name',
  'state',
  'is_admin',
  'is_auditor',
  'external',
  'private_profile',
  'can_create_group',
  'projects_limit',
  'public_email',
  'bio',
  'location',
  'organization',
  'job_title',
] as const;

type Change = { previous: string | number | boolean | null; current: string | number | boolean | null };

const changesBetween = (before: UserRow, after: UserRow): Record<string, Change> => {
  const changes: Record<string, Change> = {};
  for (const name of CHANGES_TOLD) {
    if (before[name] !== after[name]) changes[name] = { previous: before[name], current: after[name] };
  }
  return changes;
};

const TAKEN: Readonly<Record<string, string>> = {
  users_email: 'Email has already been taken',
  users_username: 'Username has already been taken',
  // A group may have the path.
  namespaces_full_path: 'Username has already been taken',
  identities_extern: 'Extern uid has already been taken',
};

const saying = async <T>(run: () => Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    const sentence = error instanceof pg.DatabaseError && error.code === '23505' ? TAKEN[error.constraint ?? ''] : null;
    throw sentence ? conflict(sentence) : error;
  }
};
