import type { IncomingHttpHeaders } from 'node:http';
import type { Context } from '#platform/context.ts';
import { authenticateClient } from '../client-authentication.ts';
import { grantByPassword, grantToDevice, redeemCode, refreshTokens, unsupportedGrant } from '../grants.ts';
import { DEVICE_GRANT } from '../model.ts';
import type { TokenResponse } from '../tokens.ts';
import { hasClient, type Parameters, readClient, required } from './parameters.ts';

/** The token endpoint (RFC 6749 §3.2) with its five grants. */
export const grantTokens = async (
  ctx: Context,
  headers: IncomingHttpHeaders,
  sent: Parameters,
): Promise<TokenResponse> => {
  const client = () => authenticateClient(ctx, readClient(headers, sent));
  switch (required(sent, 'grant_type')) {
    case 'authorization_code':
      return redeemCode(ctx, await client(), {
        code: required(sent, 'code'),
        redirectUri: required(sent, 'redirect_uri'),
        verifier: sent.get('code_verifier') ?? null,
      });
    case 'refresh_token':
      return refreshTokens(ctx, await client(), {
        refreshToken: required(sent, 'refresh_token'),
        redirectUri: sent.get('redirect_uri') ?? null,
        verifier: sent.get('code_verifier') ?? null,
        scope: sent.get('scope') ?? null,
      });
    case 'password':
      return grantByPassword(ctx, hasClient(headers, sent) ? await client() : null, {
        username: required(sent, 'username'),
        password: required(sent, 'password'),
        scope: sent.get('scope') ?? null,
      });
    case DEVICE_GRANT:
      return grantToDevice(ctx, await client(), required(sent, 'device_code'));
    default:
      throw unsupportedGrant();
  }
};
