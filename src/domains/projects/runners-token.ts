import { sql } from 'kysely';
import type { Context, Services, Tx } from '#platform/context.ts';
import { decrypt, digestToken, encrypt, randomToken } from '#platform/secrets.ts';

// The registration token of a project (reference: conventions §9): sealed, because records show it again, and as a digest,
// by which it is found.

/** Tools recognise registration tokens by this prefix. */
const PREFIX = 'GR1348941';

export const newRegistrationToken = (): string => PREFIX + randomToken();

/** The columns of a project with this token. */
export const runnersTokenColumns = (
  { secretKey }: Pick<Services, 'secretKey'>,
  token: string,
): { readonly runners_token: Buffer; readonly runners_token_digest: Buffer } => ({
  runners_token: encrypt(secretKey, token),
  runners_token_digest: digestToken(token),
});

/** Gives the project another token, and returns it. The caller checks rights and locks the project. */
export const replaceRunnersToken = async (tx: Tx, projectId: number): Promise<string> => {
  const token = newRegistrationToken();
  await tx.db
    .updateTable('projects')
    .set({ ...runnersTokenColumns(tx.services, token), updated_at: sql`now()` })
    .where('id', '=', projectId)
    .execute();
  return token;
};

/** Returns the id of the project with this token, and keeps the token from being replaced in this transaction. */
export const findProjectByRunnersToken = async ({ db }: Tx, token: string): Promise<number | null> => {
  const row = await db
    .selectFrom('projects')
    .select('id')
    .where('runners_token_digest', '=', digestToken(token))
    .forKeyShare()
    .executeTakeFirst();
  return row?.id ?? null;
};

const BATCH = 500;

/** Computes the digests of tokens from before there were any. Reads an index that is empty afterwards. */
export const digestRunnersTokens = async (ctx: Context): Promise<void> => {
  for (let count = BATCH; count === BATCH; ) {
    ctx.signal.throwIfAborted();
    const { rows } = await sql<{ id: number; runners_token: Buffer }>`
      select id, runners_token from projects
      where runners_token is not null and runners_token_digest is null order by id limit ${BATCH}`.execute(ctx.db);
    count = rows.length;
    const digests = rows.map(({ runners_token }) => digestToken(decrypt(ctx.services.secretKey, runners_token)));
    await sql`
      update projects set runners_token_digest = given.digest
      from unnest(${rows.map(({ id }) => id)}::bigint[], ${digests}::bytea[], ${rows.map((row) => row.runners_token)}::bytea[])
        as given (id, digest, sealed)
      where projects.id = given.id and projects.runners_token = given.sealed`.execute(ctx.db);
  }
};
