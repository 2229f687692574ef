import { z } from 'zod';
import { flag, secret, setting, whole } from './define.ts';
import { hosts, httpUrl } from './values.ts';

/** Splits a list that is written as text, one entry per line or separated by commas, semicolons or spaces. */
const entries = (text: unknown): string[] =>
  String(text)
    .split(/[\s,;]+/)
    .filter(Boolean);

/** Settings for calls of the hub: webhooks, local addresses and other services. */
export const network = {
  push_event_hooks_limit: whole(
    0,
    10_000,
    3,
    'A push that changes more branches or tags than this triggers no push or tag webhooks.',
  ),
  allow_local_requests_from_web_hooks_and_services: flag(
    false,
    'Whether webhooks of projects and groups, export uploads and imports by URL or from S3 can use loopback and private addresses.',
    { deprecatedNames: ['allow_local_requests_from_hooks_and_services'] },
  ),
  allow_local_requests_from_system_hooks: flag(
    false,
    'Whether hooks of the instance can use loopback and private addresses.',
  ),
  outbound_local_requests_whitelist: setting(
    hosts.default([]),
    'Local hosts, addresses and ranges that webhooks can reach nevertheless.',
    {
      otherForms: {
        outbound_local_requests_allowlist_raw: {
          schema: z.string(),
          description: 'The allow-list as text, one entry per line.',
          toSetting: entries,
          fromSetting: (list) => (Array.isArray(list) ? list.join('\n') : ''),
        },
      },
    },
  ),
  dns_rebinding_protection_enabled: flag(
    true,
    'Whether the address that the name of a host has is checked again when the hub connects to it. This hub always does so.',
    { withoutEffect: true },
  ),
  webhook_delivery_retention_days: whole(
    1,
    365,
    7,
    'Own setting: how long webhook deliveries are kept and can be resent, in days.',
  ),
  web_hook_manual_limit: whole(
    0,
    10_000,
    5,
    'Own setting: number of webhook tests, and of resends and replays, that a user can request per group or project in a minute. 0 is unlimited.',
  ),
  web_hook_calls_per_minute: whole(
    0,
    10_000_000,
    0,
    'Own setting: number of webhook calls that the events of one root namespace can trigger in a minute. Further calls are dropped and recorded. 0 is unlimited.',
  ),
  asset_proxy_enabled: flag(false, 'Whether images of other hosts in rendered text are loaded through a proxy.', {
    requires: ['asset_proxy_url'],
  }),
  asset_proxy_url: setting(
    httpUrl.default(''),
    'Address of this proxy. Images are requested as `<address>/<HMAC-SHA1 of the URL>/<URL as hex>`, as camo does.',
  ),
  asset_proxy_secret_key: secret(
    'Key that this proxy shares with the hub, for the HMAC. Without it the key is empty, and a proxy that has one refuses the images.',
  ),
  asset_proxy_allowlist: setting(
    hosts.default([]),
    'Hosts whose images are loaded directly. `*` stands for any part.',
    {
      deprecatedNames: ['asset_proxy_whitelist'],
    },
  ),
  local_markdown_version: whole(0, 2_147_483_647, 0, 'Raise it to discard all cached HTML of Markdown.'),
  spamcheck_enabled: flag(false, 'Whether an outside service checks new issues for spam.', {
    requires: ['spamcheck_api_key'],
    otherNames: ['akismet_enabled'],
    withoutEffect: true,
  }),
  spamcheck_api_key: secret('Key for this service.', { otherNames: ['akismet_api_key'], withoutEffect: true }),
};
