import { OWNER } from '#domains/access/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { AddressPolicy } from '#platform/http-client/http-client.ts';

/** Where hooks may reach, by the instance's settings. */
export const addressPolicy = async (ctx: Pick<Context, 'services'>): Promise<AddressPolicy> => {
  const settings = await getSettings(ctx);
  return {
    allowLocal: settings.allow_local_requests_from_web_hooks_and_services,
    allowlist: settings.outbound_local_requests_whitelist,
  };
};

/** Hooks are their owners' business: so are the events that tell of them. */
export const OWNER_SCOPE = { min_access_level: OWNER } as const;
