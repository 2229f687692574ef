import { sql } from 'kysely';
import { OWNER } from '#domains/access/model.ts';
import { addressesOfHolders } from '#domains/access/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { webUrl } from '#platform/urls.ts';
import { hasPendingActivity } from './activity.ts';
import { deleteProject } from './deletion.ts';
import { getProject } from './queries.ts';

const BATCH = 100;
const MAX_RECIPIENTS = 100;

/** The settings of the deletion of inactive projects. */
interface Inactivity {
  readonly warnAfterMonths: number;
  readonly deleteAfterMonths: number;
  readonly minBytes: number;
}

/**
 * Warns the Owners of inactive projects, and deletes projects that stayed inactive after the warning, as
 * `delete_inactive_projects` and its companions say (specification 3 §2.4). A project is only deleted when the time between
 * warning and deletion has passed since the warning was sent, even if it was inactive for longer. Activity makes the warning
 * void. The deletion is the usual one, delayed if `deletion_adjourned_period` says so. Nothing happens in silent mode, nor to
 * a project without an Owner who gets mail.
 */
export const deleteInactive = async (ctx: Context): Promise<void> => {
  const settings = await getSettings(ctx);
  if (!settings.delete_inactive_projects) {
    // Warnings from before must not count if the setting is turned on again.
    await ctx.db.deleteFrom('inactivity_warnings').execute();
    return;
  }
  // Mails are dropped in silent mode, so nobody would be warned.
  if (settings.silent_mode_enabled) return;
  const inactivity: Inactivity = {
    warnAfterMonths: settings.inactive_projects_send_warning_email_after_months,
    deleteAfterMonths: settings.inactive_projects_delete_after_months,
    minBytes: settings.inactive_projects_min_size_mb * 1024 * 1024,
  };
  await dropVoidWarnings(ctx);
  await eachDue(ctx, isDueForDeletion(inactivity), (id) => deleteIfDue(ctx, id, inactivity));
  await eachDue(ctx, isDueForWarning(inactivity), (id) => warn(ctx, id, inactivity));
};

const dropVoidWarnings = ({ db }: Context) =>
  sql`
    delete from inactivity_warnings w using projects p
    where p.id = w.project_id and (p.last_activity_at > w.last_activity_at or p.marked_for_deletion_on is not null)`.execute(
    db,
  );

const months = (count: number) => sql`make_interval(months => ${count})`;

const isInactive = (afterMonths: number, { minBytes }: Inactivity) => sql<boolean>`
  p.last_activity_at < now() - ${months(afterMonths)} and p.marked_for_deletion_on is null and not p.pending_delete
  and (${minBytes}::bigint = 0 or exists (
    select from project_statistics s where s.project_id = p.id and s.repository_size + s.wiki_size + s.lfs_objects_size
      + s.job_artifacts_size + s.pipeline_artifacts_size + s.packages_size + s.snippets_size + s.uploads_size >= ${minBytes}::bigint))`;

const isDueForWarning = (inactivity: Inactivity) => sql<boolean>`
  ${isInactive(inactivity.warnAfterMonths, inactivity)}
  and not exists (select from inactivity_warnings w where w.project_id = p.id)`;

const isDueForDeletion = (inactivity: Inactivity) => sql<boolean>`
  ${isInactive(inactivity.deleteAfterMonths, inactivity)}
  and exists (
    select from inactivity_warnings w where w.project_id = p.id and w.last_activity_at >= p.last_activity_at
      and now() >= greatest(w.delete_at, w.warned_at + ${months(inactivity.deleteAfterMonths - inactivity.warnAfterMonths)}))`;

/** Calls `work` for each project that is due. One that fails does not stop the others. */
const eachDue = async (
  ctx: Context,
  isDue: ReturnType<typeof isDueForWarning>,
  work: (id: number) => Promise<void>,
): Promise<void> => {
  const failures: unknown[] = [];
  for (let after = 0; ; ) {
    const { rows } = await sql<{ id: number }>`
      select p.id from projects p where p.id > ${after} and ${isDue} order by p.id limit ${sql.lit(BATCH)}`.execute(
      ctx.db,
    );
    for (const { id } of rows) {
      ctx.signal.throwIfAborted();
      await work(id).catch((error: unknown) => failures.push(error));
      after = id;
    }
    if (rows.length < BATCH) break;
  }
  if (failures.length > 0) {
    throw new AggregateError(
      failures,
      `${failures.length} inactive projects could not be handled; they will be retried`,
    );
  }
};

const warn = (ctx: Context, id: number, inactivity: Inactivity): Promise<void> =>
  ctx.transaction(async (tx) => {
    const recipients = await addressesOfHolders(tx, { project_id: id }, OWNER, MAX_RECIPIENTS);
    if (recipients.length === 0) return;
    const { rows } = await sql<{ delete_on: string; last_activity_on: string }>`
      insert into inactivity_warnings (project_id, last_activity_at, delete_at)
      select p.id, p.last_activity_at, now() + ${months(inactivity.deleteAfterMonths - inactivity.warnAfterMonths)}
      from projects p where p.id = ${id} and ${isDueForWarning(inactivity)}
      on conflict (project_id) do nothing
      returning to_char(last_activity_at, 'YYYY-MM-DD') as last_activity_on,
        to_char(delete_at, 'YYYY-MM-DD') as delete_on`.execute(tx.db);
    const [warning] = rows;
    if (!warning) return;
    const { full_path } = await getProject(tx, { id });
    for (const to of recipients) {
      sendMail(tx, {
        to,
        subject: `The project ${full_path} will be deleted for inactivity`,
        text: `Hello,

nothing has happened in the project ${full_path} since ${warning.last_activity_on}.
It will be deleted on ${warning.delete_on} or soon after, unless it becomes active before: for example by a push or an issue.

${webUrl(tx, full_path)}
`,
      });
    }
  });

/** Deletes the project if it is still due under the lock of its row, and no activity waits to be recorded. */
const deleteIfDue = (ctx: Context, id: number, inactivity: Inactivity): Promise<void> =>
  ctx.transaction(async (tx) => {
    const { rows } = await sql`
      select p.id from projects p where p.id = ${id} and ${isDueForDeletion(inactivity)} and not ${hasPendingActivity}
      for update`.execute(tx.db);
    if (rows.length === 0) return;
    const project = await getProject(tx, { id });
    tx.log.info({ project_id: id }, 'deleting an inactive project');
    await deleteProject(tx, project);
    await tx.db.deleteFrom('inactivity_warnings').where('project_id', '=', id).execute();
  });
