import { expect, it } from 'vitest';
import { hashPassword, verifyPassword } from '#domains/users/password.ts';

/** More than wait and run at a time. */
const MANY = 70;

it('compares passwords of unknown users again after the queue was full', async () => {
  const hashes = Promise.allSettled(Array.from({ length: MANY }, () => hashPassword('a password')));
  await expect(verifyPassword(null, 'a password')).rejects.toMatchObject({ code: 'too_many_requests' });
  await hashes;
  expect(await verifyPassword(null, 'a password')).toBe(false);
});
