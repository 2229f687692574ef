import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';
import { avatarUrl } from './model.ts';
import { findUser, type UserSummary } from './queries.ts';

/** Returns the user object of webhook bodies (reference: webhooks §3). Only a public address is included. */
export const hookUser = (ctx: Context, user: UserSummary) => ({
  id: user.id,
  name: user.name,
  username: user.username,
  avatar_url: avatarUrl(ctx, user),
  email: user.public_email || '[REDACTED]',
});

interface NamedUser {
  readonly id: number;
  readonly username: string;
  readonly name: string;
}

/** The body of events of users, for system hooks. Users who are gone have no address any more. */
export const userBody =
  (event_name: 'user_create' | 'user_destroy') =>
  async (ctx: Context, event: EventRow, user: NamedUser): Promise<Record<string, unknown>> => {
    const row = await findUser(ctx, user.id);
    return {
      event_name,
      created_at: isoTime(row?.created_at ?? event.created_at),
      updated_at: isoTime(row?.updated_at ?? event.created_at),
      name: user.name,
      email: row?.email ?? null,
      username: user.username,
      user_id: user.id,
    };
  };
