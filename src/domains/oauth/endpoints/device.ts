import type { IncomingHttpHeaders } from 'node:http';
import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';
import { authenticateClient } from '../client-authentication.ts';
import { type DeviceAuthorization, startDevice } from '../device.ts';
import { requestedScopes } from '../model.ts';
import { invalidScope } from '../protocol-error.ts';
import { type Parameters, readClient } from './parameters.ts';

/** The device authorization endpoint (RFC 8628 §3.1). */
export const authorizeDevice = async (
  ctx: Context,
  headers: IncomingHttpHeaders,
  sent: Parameters,
): Promise<DeviceAuthorization & { readonly verification_uri: string; readonly verification_uri_complete: string }> => {
  const application = await authenticateClient(ctx, readClient(headers, sent));
  const scopes = requestedScopes(sent.get('scope'), application.scopes);
  if (!scopes || scopes.length === 0) throw invalidScope();
  const started = await startDevice(ctx, application, scopes);
  const verification_uri = webUrl(ctx, 'oauth/device');
  return {
    ...started,
    verification_uri,
    verification_uri_complete: `${verification_uri}?user_code=${encodeURIComponent(started.user_code)}`,
  };
};
