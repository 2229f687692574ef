import type { Context } from '#platform/context.ts';
import { avatarUrl } from './model.ts';
import type { UserSummary } from './queries.ts';

/** Returns the user object of webhook bodies (reference: webhooks §3). Only a public address is included. */
export const hookUser = (ctx: Context, user: UserSummary) => ({
  id: user.id,
  name: user.name,
  username: user.username,
  avatar_url: avatarUrl(ctx, user),
  email: user.public_email || '[REDACTED]',
});
