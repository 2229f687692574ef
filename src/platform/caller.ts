import { AsyncLocalStorage } from 'node:async_hooks';
import type { Actor, Client } from './context.ts';
import { networkOf } from './network.ts';

/**
 * On whose behalf work is done, for bounds deep below the domains: whatever a request starts counts as its caller's,
 * without each function in between handing it on. Rights are never decided by it.
 */
const storage = new AsyncLocalStorage<{ key: string | null }>();

/** Does the work of one request, whose caller is named once known. */
export const forRequest = <T>(work: () => T): T => storage.run({ key: null }, work);

/** Says whose request it is: a user's, wherever they come from, or that of an address without a credential. */
export const nameCaller = (actor: Pick<Actor, 'userId' | 'isSystem'>, client: Client): void => {
  const request = storage.getStore();
  if (!request || actor.isSystem) return;
  if (actor.userId !== null) request.key = `user:${actor.userId}`;
  else if (client.ip !== null) request.key = `ip:${networkOf(client.ip)}`;
};

/** Null for the hub itself: jobs, followers, and requests before it is known who asks. */
export const currentCaller = (): string | null => storage.getStore()?.key ?? null;
