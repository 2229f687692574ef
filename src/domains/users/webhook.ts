import type { Context } from '#platform/context.ts';
import { avatarUrl } from './model.ts';
import type { UserSummary } from './queries.ts';

/** The user object of webhook bodies (reference: webhooks §3). An address that is not public is not told. */
export const hookUser = (ctx: Context, user: UserSummary) => ({
  id: user.id,
  name: user.name,
  username: user.username,
  avatar_url: avatarUrl(ctx, user),
  email: user.public_email || '[REDACTED]',
});
