import { createHash } from 'node:crypto';
import { getSecretSetting, getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { AssetProxy } from './model.ts';

/**
 * Returns the proxy for images of other hosts (settings `asset_proxy_*`), null if it is off, and a key that changes with
 * it and with the setting `local_markdown_version`.
 */
export const assetProxyOf = async (
  ctx: Pick<Context, 'services'>,
): Promise<{ readonly assetProxy: AssetProxy | null; readonly variant: string }> => {
  const settings = await getSettings(ctx);
  const version = String(settings.local_markdown_version);
  if (!settings.asset_proxy_enabled || settings.asset_proxy_url === '') return { assetProxy: null, variant: version };
  const assetProxy = {
    url: settings.asset_proxy_url,
    // Without a key the proxy refuses images. Hosts of images never get the addresses of readers while it is on.
    secret: (await getSecretSetting(ctx, 'asset_proxy_secret_key')) ?? '',
    allowlist: settings.asset_proxy_allowlist,
  };
  const digest = createHash('sha256').update(JSON.stringify(assetProxy)).digest('base64');
  return { assetProxy, variant: `${version} ${digest}` };
};
