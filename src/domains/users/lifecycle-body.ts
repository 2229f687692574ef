import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';
import { findUser } from './queries.ts';

interface Told {
  readonly id: number;
  readonly username: string;
  readonly name: string;
}

/** The body of events of users, for system hooks. Users who are gone have no address any more. */
export const userBody =
  (event_name: 'user_create' | 'user_destroy') =>
  async (ctx: Context, event: EventRow, user: Told): Promise<Record<string, unknown>> => {
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
