import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { AddressPolicy } from '#platform/http-client/http-client.ts';

/** Returns the policy for addresses that exports are uploaded to and repositories are cloned from. */
export const outboundPolicy = async (ctx: Context): Promise<AddressPolicy> => {
  const settings = await getSettings(ctx);
  return {
    allowLocal: settings.allow_local_requests_from_web_hooks_and_services,
    allowlist: settings.outbound_local_requests_whitelist,
  };
};
