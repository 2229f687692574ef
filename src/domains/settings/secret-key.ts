import { sql } from 'kysely';
import type { Services } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import { StartError } from '#platform/process/start-error.ts';
import { decrypt, encrypt } from '#platform/secrets.ts';

const PURPOSE = 'secret_key_check';

/**
 * Checks that the key of this process is the one that the database was written with. The first process stores a sealed
 * value in the database, and each start opens it.
 *
 * @throws StartError if the database was written with another key, unless MILLRACE_REPLACE_SECRET_KEY is set
 */
export const requireSecretKey = async ({
  db,
  secretKey,
  config,
  log,
}: Pick<Services, 'db' | 'secretKey' | 'config' | 'log'>): Promise<void> => {
  const own = encrypt(secretKey, '', PURPOSE);
  let check = await readCheck(db);
  if (check === null && (await opensOlderValues(db, secretKey))) {
    // Of processes that start together, only the first one stores its value.
    await db
      .updateTable('application_settings')
      .set({ secret_key_check: own })
      .where('secret_key_check', 'is', null)
      .execute();
    check = await readCheck(db);
  }
  if (check !== null && opens(secretKey, check, PURPOSE)) return;
  if (!config.replaceSecretKey) {
    throw new StartError(
      'The database was written with another secret key. Start with that key: in MILLRACE_SECRET_KEY (--secret-key), or in the file instance-key of the data directory. If it is lost, --replace-secret-key true starts with the new key, and what the lost key encrypted stays unreadable.',
    );
  }
  await db.updateTable('application_settings').set({ secret_key_check: own }).execute();
  log.warn('the secret key was replaced: secrets that were encrypted with the former key cannot be read');
};

const readCheck = async (db: Database): Promise<Buffer | null> => {
  const row = await db.selectFrom('application_settings').select('secret_key_check').executeTakeFirstOrThrow();
  return row.secret_key_check;
};

/**
 * For databases from before the check: whether the key opens one of a few sealed values, or there are none. One value is
 * enough, because a start with a wrong key may have sealed others.
 */
const opensOlderValues = async (db: Database, secretKey: Buffer): Promise<boolean> => {
  const { rows } = await sql<{ sealed: Buffer }>`
    (select runners_token as sealed from projects where runners_token is not null order by id limit 1)
    union all (select runners_token from projects where runners_token is not null order by id desc limit 1)
    union all (select token from webhooks where token is not null order by id limit 1)
    union all (select token from webhooks where token is not null order by id desc limit 1)
    union all (select private_jwk from oauth_signing_keys order by id limit 1)
    union all (select private_jwk from oauth_signing_keys order by id desc limit 1)`.execute(db);
  return rows.length === 0 || rows.some(({ sealed }) => opens(secretKey, sealed));
};

const opens = (secretKey: Buffer, sealed: Buffer, purpose?: string): boolean => {
  try {
    decrypt(secretKey, sealed, purpose);
    return true;
  } catch {
    return false;
  }
};
