import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';

/** Returns the address for commits made on the hub: the chosen one, or a no-reply address for `_private`. */
export const commitEmail = async (
  ctx: Pick<Context, 'services'>,
  user: {
    readonly id: number;
    readonly username: string;
    readonly email: string;
    readonly commit_email: string | null;
  },
): Promise<string> => {
  if (user.commit_email !== '_private') return user.commit_email ?? user.email;
  const { commit_email_hostname: host } = await getSettings(ctx);
  return `${user.id}-${user.username}@${host === '' ? usualHost(ctx) : host}`;
};

/**
 * Returns the user id in a no-reply address, or null for other addresses. Addresses at the usual host still count after
 * another host was set, because commits keep them.
 */
export const userIdInAddress = async (ctx: Pick<Context, 'services'>, address: string): Promise<number | null> => {
  const [, id, host] = /^(\d{1,15})-[^@]*@([^@]+)$/.exec(address) ?? [];
  if (id === undefined || host === undefined) return null;
  const { commit_email_hostname: set } = await getSettings(ctx);
  return host.toLowerCase() === usualHost(ctx) || host.toLowerCase() === set.toLowerCase() ? Number(id) : null;
};

const usualHost = ({ services }: Pick<Context, 'services'>): string =>
  `users.noreply.${new URL(services.urls.base).hostname}`;
