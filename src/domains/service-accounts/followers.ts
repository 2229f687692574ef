import { sql } from 'kysely';
import { groupDeleted } from '#domains/groups/events.ts';
import { ownsGroupAlone, removeAccount } from '#domains/users/removal.ts';
import { blockAccount } from '#domains/users/states.ts';
import { defineFollower } from '#platform/event-log/followers.ts';

/**
 * Deletes the service accounts of deleted groups, because nobody could manage them or their tokens any more. An account
 * that is the only Owner of another group is blocked instead, until an administrator gives that group an Owner.
 */
export const removeOfDeletedGroups = defineFollower({
  name: 'service-accounts.groups',
  payloads: false,
  wants: ({ kind }) => kind === groupDeleted.kind,
  handle: async (tx, events) => {
    const gone = events.map(({ subject_id }) => subject_id);
    const { rows } = await sql<{ id: number }>`
      select id from users where user_type = 'service_account' and provisioned_by_group_id = any (${gone}::bigint[])
      order by id`.execute(tx.db);
    for (const { id } of rows) {
      if (await ownsGroupAlone(tx, id)) await blockAccount(tx, id);
      else await removeAccount(tx, id, { hardDelete: false });
    }
  },
});
