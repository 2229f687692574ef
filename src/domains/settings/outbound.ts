import type { Context } from '#platform/context.ts';
import type { AddressPolicy } from '#platform/http-client/http-client.ts';
import { getSettings } from './queries.ts';

/** Returns which addresses hooks, uploads, clones and included CI files may reach, according to the instance settings. */
export const outboundPolicy = async (ctx: Pick<Context, 'services'>): Promise<AddressPolicy> => {
  const settings = await getSettings(ctx);
  return {
    allowLocal: settings.allow_local_requests_from_web_hooks_and_services,
    allowlist: settings.outbound_local_requests_whitelist,
  };
};

/** Returns which addresses a hook may reach. Hooks of the instance have a setting of their own. */
export const hookPolicy = async (
  ctx: Pick<Context, 'services'>,
  { isSystem }: { readonly isSystem: boolean },
): Promise<AddressPolicy> => {
  const policy = await outboundPolicy(ctx);
  if (!isSystem) return policy;
  return { ...policy, allowLocal: (await getSettings(ctx)).allow_local_requests_from_system_hooks };
};
