import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import { addressesOfHolders } from '#domains/access/queries.ts';
import { groupsWantMails } from '#domains/groups/mails.ts';
import type { Tx } from '#platform/context.ts';
import { sendMail } from '#platform/mail/mail.ts';
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
  return groupsWantMails(tx, ids);
};

/** Notifies up to ten managers of the members about a pending decision. */
export const notifyManagers = async (tx: Tx, source: MemberSource, what: string): Promise<void> => {
  if (!(await wantsMails(tx, source))) return;
  const { type, full_path } = sourcePayload(source);
  const least = source.kind === 'group' ? OWNER : MAINTAINER;
  const place = source.kind === 'group' ? { namespace_id: source.group.id } : { project_id: source.project.id };
  for (const to of await addressesOfHolders(tx, place, least, MAX_MANAGERS)) {
    sendMail(tx, {
      to,
      subject: `Request for access to ${full_path}`,
      text: `Hello,

${what} to the ${type.toLowerCase()} ${full_path}:

${webUrl(tx, type === 'Group' ? `groups/${full_path}` : full_path)}
`,
    });
  }
};
