import { brokenConstraint } from '#platform/db/failures.ts';
import { conflict } from '#platform/errors.ts';

const TAKEN: Readonly<Record<string, string>> = {
  users_email: 'Email has already been taken',
  users_username: 'Username has already been taken',
  // A group may already have the path.
  namespaces_full_path: 'Username has already been taken',
  identities_extern: 'Extern uid has already been taken',
};

/** Runs `run`, and turns a unique violation of a name or address into `conflict`. */
export const reportTaken = async <T>(run: () => Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    const sentence = TAKEN[brokenConstraint(error) ?? ''];
    throw sentence ? conflict(sentence) : error;
  }
};
