import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const group = z.object({ id: z.number(), full_path: z.string() });

const link = z.object({
  id: z.number(),
  group,
  provider: z.string(),
  cn: z.string().nullable(),
  filter: z.string().nullable(),
  group_access: z.number(),
});

/** Sent to the Owners of the group. */
export const ldapGroupLinkCreated = defineEvent('ldap_group_link.created', link);
export const ldapGroupLinkDeleted = defineEvent('ldap_group_link.deleted', link);

/**
 * The state of a sync; each event carries all of it. The counts are of people, both those in the directory and those
 * who have left it.
 */
const sync = z.object({
  group,
  run: z.number(),
  total: z.number(),
  processed: z.number(),
  added: z.number(),
  changed: z.number(),
  removed: z.number(),
  error: z.string().nullable(),
});
export type LdapSyncPayload = z.output<typeof sync>;

export const ldapSyncStarted = defineEvent('ldap_sync.started', sync);
export const ldapSyncProgressed = defineEvent('ldap_sync.progressed', sync);
export const ldapSyncFinished = defineEvent('ldap_sync.finished', sync);
export const ldapSyncFailed = defineEvent('ldap_sync.failed', sync);
