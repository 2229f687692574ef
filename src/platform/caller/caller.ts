import { AsyncLocalStorage } from 'node:async_hooks';
import type { Actor, Client } from '../context.ts';
import { networkOf } from './network.ts';

/**
 * The caller on whose behalf work is done, for limits deep below the domains. All work that a request starts counts as
 * its caller's, and functions need not pass the caller along. It never decides about permissions.
 */
const storage = new AsyncLocalStorage<{ key: string | null }>();

/** Runs the work of one request. Its caller is set once it is known. */
export const forRequest = <T>(work: () => T): T => storage.run({ key: null }, work);

/**
 * Sets the caller of the current request: the user, from any address, or the address of a request without a credential.
 */
export const nameCaller = (actor: Pick<Actor, 'userId' | 'isSystem'>, client: Client): void => {
  const request = storage.getStore();
  if (!request || actor.isSystem) return;
  if (actor.userId !== null) request.key = `user:${actor.userId}`;
  else if (client.ip !== null) request.key = `ip:${networkOf(client.ip)}`;
};

/** Returns null for the hub itself: jobs, followers, and requests whose caller is not known yet. */
export const currentCaller = (): string | null => storage.getStore()?.key ?? null;
