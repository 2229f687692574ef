import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { createUser } from '#domains/users/commands.ts';
import { findUserByUsername } from '#domains/users/queries.ts';
import { TOKEN_SCOPES } from '#platform/caller/token-scopes.ts';
import type { Context, Tx } from '#platform/context.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { insertToken } from './commands.ts';

export interface SeededAdministrator {
  /** Whether this start created `root`. */
  readonly created: boolean;
  /** Generated values, to show once. Null when the value was given, or `root` already existed. */
  readonly password: string | null;
  readonly token: string | null;
}

const USERNAME = 'root';

/**
 * Creates the first administrator, `root`, if there is no administrator yet. Generates the password and token if they
 * are not given. A given token is added as it is, with all scopes and without expiry, even when `root` already exists.
 * If several processes start at once, one of them does this.
 *
 * Calls `show` right before the commit: if the process dies between the two, `root` does not exist, and the next start
 * shows new values. After the commit, generated values would be lost.
 */
export const seedAdministrator = async (
  ctx: Context,
  given: { readonly password?: string | null; readonly token?: string | null },
  show: (administrator: SeededAdministrator) => void = () => {},
): Promise<SeededAdministrator> => {
  const { personal_access_token_prefix: prefix } = await getSettings(ctx);
  return ctx.transaction(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtext('millrace.seed'))`.execute(tx.db);
    const any = await tx.db.selectFrom('users').select('id').where('is_admin', '=', true).limit(1).executeTakeFirst();
    if (any) {
      if (given.token) await addToken(tx, given.token);
      return { created: false, password: null, token: null };
    }
    const password = given.password ?? randomToken(20);
    const token = given.token ?? prefix + randomToken();
    const { id } = await createUser(tx, {
      username: USERNAME,
      name: 'Administrator',
      email: 'root@localhost.localdomain',
      password,
      admin: true,
      external: false,
      skip_confirmation: true,
      can_create_group: true,
    });
    await store(tx, id, token);
    const administrator = {
      created: true,
      password: given.password ? null : password,
      token: given.token ? null : token,
    };
    show(administrator);
    return administrator;
  });
};

const addToken = async (tx: Tx, value: string): Promise<void> => {
  const known = await tx.db
    .selectFrom('personal_access_tokens')
    .select('id')
    .where('digest', '=', digestToken(value))
    .executeTakeFirst();
  // A revoked token stays revoked, because somebody revoked it on purpose.
  if (known) return;
  const root = await findUserByUsername(tx, USERNAME);
  if (!root?.is_admin) {
    tx.log.warn('Did not add the administrator token: there is no administrator called root');
    return;
  }
  await store(tx, root.id, value);
};

const store = (tx: Tx, user_id: number, value: string) =>
  insertToken(tx, {
    user_id,
    name: 'Administrator token from the settings',
    scopes: TOKEN_SCOPES,
    expires_at: null,
    value,
  });
