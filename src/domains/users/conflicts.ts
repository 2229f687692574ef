import { brokenConstraint } from '#platform/db/failures.ts';
import { conflict } from '#platform/errors.ts';

const TAKEN: Readonly<Record<string, string>> = {
  users_email: 'Email has already been taken',
  users_username: 'Username has already been taken',
  // A group may have the path.
  namespaces_full_path: 'Username has already been taken',
  identities_extern: 'Extern uid has already been taken',
};

/** Runs it, and says of a name or address that somebody else has that it is taken (`conflict`). */
export const sayingWhatIsTaken = async <T>(run: () => Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    const sentence = TAKEN[brokenConstraint(error) ?? ''];
    throw sentence ? conflict(sentence) : error;
  }
};
