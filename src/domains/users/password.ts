import { hash, verify } from '@node-rs/argon2';
import { DomainError } from '#platform/errors.ts';
import { randomToken } from '#platform/secrets.ts';

/** Each takes about 19 MiB and a thread that files and compression also use: few at once, a bounded queue behind. */
const MAX_RUNNING = 2;
const MAX_WAITING = 64;

let running = 0;
const waiting: (() => void)[] = [];

/** Longer input is refused before it is hashed. */
export const MAX_PASSWORD_LENGTH = 128;

/** An Argon2id digest with its salt and cost. */
export const hashPassword = (password: string): Promise<string> => limited(() => hash(password));

/**
 * Whether the password is the one of the digest. Without a digest (no such user, no password) it takes as long and is
 * false, so that its duration tells nothing. Throws `too_many_requests` when far too many are being checked.
 */
export const verifyPassword = async (digest: string | null, password: string): Promise<boolean> => {
  const given = password.slice(0, MAX_PASSWORD_LENGTH + 1);
  decoy ??= hashPassword(randomToken());
  const compared = digest ?? (await decoy);
  const same = await limited(() => verify(compared, given));
  return same && digest !== null;
};

let decoy: Promise<string> | null = null;

const limited = async <T>(run: () => Promise<T>): Promise<T> => {
  if (running >= MAX_RUNNING) {
    if (waiting.length >= MAX_WAITING) {
      throw new DomainError('too_many_requests', 'Too many passwords are being checked. Try again later.');
    }
    await new Promise<void>((resolve) => waiting.push(resolve));
  } else {
    running += 1;
  }
  try {
    return await run();
  } finally {
    // The place goes to the next in line, or is given back.
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
};
