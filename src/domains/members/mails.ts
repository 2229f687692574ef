import { sql } from 'kysely';
import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import type { Tx } from '#platform/context.ts';
import { sendMail } from '#platform/mail.ts';
import { webUrl } from '#platform/urls.ts';
import { type MemberSource, sourcePayload } from './model.ts';

const MAX_MANAGERS = 10;

/**
 * Returns true if the group or project sends mails. Each project, and each group for everything below it, can turn them
 * off.
 */
export const wantsMails = async (tx: Tx, source: MemberSource): Promise<boolean> => {
  if (source.kind === 'project' && !source.project.emails_enabled) return false;
  const ids = source.kind === 'group' ? source.group.traversal_ids : source.project.namespace.traversal_ids;
  const silent = await tx.db
    .selectFrom('namespaces')
    .select('id')
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .where('emails_enabled', '=', false)
    .limit(1)
    .executeTakeFirst();
  return silent === undefined;
};

/** Notifies up to ten managers of the members about a pending decision. */
export const tellManagers = async (tx: Tx, source: MemberSource, what: string): Promise<void> => {
  if (!(await wantsMails(tx, source))) return;
  const { type, full_path } = sourcePayload(source);
  const least = source.kind === 'group' ? OWNER : MAINTAINER;
  const ids = source.kind === 'group' ? source.group.traversal_ids : source.project.namespace.traversal_ids;
  const projectId = source.kind === 'project' ? source.project.id : null;
  const managers = await tx.db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select('users.email')
    .distinct()
    .where(sql<boolean>`(members.namespace_id = any (${ids}::bigint[]) or members.project_id = ${projectId})`)
    .where('members.access_level', '>=', least)
    .where(sql<boolean>`(members.expires_at is null or members.expires_at > current_date)`)
    .where('users.state', '=', 'active')
    .where('users.user_type', '=', 'human')
    .where('users.confirmed_at', 'is not', null)
    .orderBy('users.email')
    .limit(MAX_MANAGERS)
    .execute();
  for (const { email } of managers) {
    sendMail(tx, {
      to: email,
      subject: `Request for access to ${full_path}`,
      text: `Hello,

${what} to the ${type.toLowerCase()} ${full_path}:

${webUrl(tx, type === 'Group' ? `groups/${full_path}` : full_path)}
`,
    });
  }
};
