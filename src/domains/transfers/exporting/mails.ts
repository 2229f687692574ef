import { groupsWantMails } from '#domains/groups/mails.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Tx } from '#platform/context.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { apiUrl, webUrl } from '#platform/urls.ts';
import type { ExportRow } from '../model.ts';

/**
 * Mails the user who requested the export that it has ended. Sends nothing if mails of the project are turned off, or
 * their address is not confirmed.
 */
export const mailExportEnd = async (tx: Tx, project: ProjectRow, row: ExportRow): Promise<void> => {
  if (row.user_id === null || !project.emails_enabled) return;
  if (!(await groupsWantMails(tx, project.namespace.traversal_ids))) return;
  const user = await tx.db
    .selectFrom('users')
    .select(['email', 'username'])
    .where('id', '=', row.user_id)
    .where('confirmed_at', 'is not', null)
    .where('state', '=', 'active')
    .where('user_type', '=', 'human')
    .executeTakeFirst();
  if (!user) return;
  const isFinished = row.status === 'finished';
  const outcome = isFinished
    ? `The export of ${project.full_path} is finished. Download it until ${row.expires_at ?? 'it expires'}:

${apiUrl(tx, `projects/${project.id}/export/download`)}`
    : `The export of ${project.full_path} failed:

${webUrl(tx, project.full_path)}`;
  sendMail(tx, {
    to: user.email,
    subject: `${project.full_path} ${isFinished ? 'was exported' : 'could not be exported'}`,
    text: `Hello ${user.username},

${outcome}
${row.error === null ? '' : `\n${row.error}\n`}`,
  });
};
