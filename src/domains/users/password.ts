import { hash, verify } from '@node-rs/argon2';
import { DomainError } from '#platform/errors.ts';
import { randomToken } from '#platform/secrets.ts';

/**
 * Each hash takes about 19 MiB and a pool thread that files and compression need too. So few run at once, behind a
 * bounded queue.
 */
const MAX_RUNNING = 2;
const MAX_WAITING = 64;

let running = 0;
const waiting: (() => void)[] = [];

/** In characters. Longer input is refused before it is hashed. */
export const MAX_PASSWORD_LENGTH = 128;

/** Returns an Argon2id digest with its salt and cost. @throws `too_many_requests` when the queue is full */
export const hashPassword = (password: string): Promise<string> => limited(() => hash(password));

/**
 * Whether the password matches the digest. Without a digest (no such user, no password) it takes as long and returns
 * false, so that the duration reveals nothing.
 *
 * @throws `too_many_requests` when the queue is full
 */
export const verifyPassword = async (digest: string | null, password: string): Promise<boolean> => {
  const given = password.slice(0, MAX_PASSWORD_LENGTH + 1);
  const decoy = decoyDigest();
  const compared = digest ?? (await decoy);
  const same = await limited(() => verify(compared, given));
  return same && digest !== null;
};

let madeDecoy: Promise<string> | null = null;

/** Made once. If the queue is full then, the next caller makes it. */
const decoyDigest = (): Promise<string> => {
  const made = madeDecoy ?? hashPassword(randomToken());
  madeDecoy = made;
  made.catch(() => {
    madeDecoy = null;
  });
  return made;
};

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
    // Hands the slot to the next waiter, or frees it.
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
};
