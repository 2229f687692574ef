import { sql } from 'kysely';
import { groupDeleted } from '#domains/groups/events.ts';
import { ownsGroupAlone, removeAccount } from '#domains/users/removal.ts';
import { blockAccount } from '#domains/users/states.ts';
import { inNameOf } from '#platform/context.ts';
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
    const deleters = new Map(events.map(({ subject_id, actor_id }) => [subject_id, actor_id]));
    const { rows } = await sql<{ id: number; group_id: number }>`
      select id, provisioned_by_group_id as group_id from users
      where user_type = 'service_account' and provisioned_by_group_id = any (${[...deleters.keys()]}::bigint[])
      order by id`.execute(tx.db);
    for (const { id, group_id } of rows) {
      const deleter = inNameOf(tx, deleters.get(group_id) ?? null);
      if (await ownsGroupAlone(tx, id)) await blockAccount(deleter, id);
      else await removeAccount(deleter, id, { hardDelete: false });
    }
  },
});
