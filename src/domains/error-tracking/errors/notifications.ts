import { sql } from 'kysely';
import { z } from 'zod';
import { REPORTER } from '#domains/access/model.ts';
import { readersByProject } from '#domains/planning/readers.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context, Tx } from '#platform/context.ts';
import { unauthenticated } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { ERROR_CHANGES, type ErrorChange, errorWebUrl } from '../model.ts';
import { type ErrorRow, errorsByIds } from './queries.ts';

/** Mails about errors that a user gets in an hour, over all projects. */
const HOURLY = { limit: 60, seconds: 3_600 } as const;
/** Errors that one mail names. */
const MAX_NAMED = 20;

const HEADINGS: Readonly<Record<ErrorChange, string>> = {
  created: 'New',
  regressed: 'Occurred again',
  resolved: 'Resolved',
};

/** Turns mails about the errors of a project on or off for the caller. @throws DomainError as `requireAbility` */
export const setErrorNotifications = async (ctx: Context, project: ProjectRow, wanted: boolean): Promise<void> => {
  requireAbility(ctx, project, 'read_error');
  const user_id = ctx.actor.userId;
  if (user_id === null) throw unauthenticated();
  if (wanted) {
    await ctx.db
      .insertInto('error_notifications')
      .values({ project_id: project.id, user_id })
      .onConflict((clash) => clash.doNothing())
      .execute();
  } else {
    await ctx.db
      .deleteFrom('error_notifications')
      .where('project_id', '=', project.id)
      .where('user_id', '=', user_id)
      .execute();
  }
};

/** Returns which of the projects mail the caller about their errors. */
export const notifyingProjects = async (
  { db, actor }: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, true>> => {
  const rows = await db
    .selectFrom('error_notifications')
    .select('project_id')
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .where('user_id', '=', actor.userId ?? 0)
    .execute();
  return new Map(rows.map(({ project_id }) => [project_id, true]));
};

/** Mails those who want it, after the transaction. Costs nothing where nobody wants it. */
export const notifyOfErrors = async (tx: Tx, change: ErrorChange, errorIds: readonly number[]): Promise<void> => {
  if (errorIds.length === 0) return;
  const { rows } = await sql<{ project_id: number; error_ids: number[] }>`
    select project_id, array_agg(id order by id)::bigint[] as error_ids from errors
    where id = any (${errorIds}::bigint[])
      and exists (select from error_notifications n where n.project_id = errors.project_id)
    group by 1`.execute(tx.db);
  for (const row of rows) tx.enqueue(mailAboutErrors, { ...row, change, actor_id: tx.actor.userId });
};

/** The job `error_tracking.mail`: mails the users who want it, and may still read errors, about some errors. */
export const mailAboutErrors = defineJob({
  name: 'error_tracking.mail',
  input: z
    .object({
      project_id: z.number(),
      error_ids: z.array(z.number()),
      change: z.enum(ERROR_CHANGES),
      actor_id: z.number().nullable(),
    })
    .strict(),
  maxAttempts: 5,
  run: async (ctx, { project_id, error_ids, change, actor_id }) => {
    const project = await findProject(ctx, { id: project_id });
    if (!project) return;
    const errors = [...(await errorsByIds(ctx, error_ids.slice(0, MAX_NAMED))).values()];
    const recipients = (await findRecipients(ctx, project)).filter(({ id }) => id !== actor_id);
    if (errors.length === 0 || recipients.length === 0) return;
    const subject = subjectOf(project, change, errors, error_ids.length);
    const text = textOf(ctx, project, change, errors, error_ids.length);
    const mails: { readonly to: string; readonly subject: string; readonly text: string }[] = [];
    for (const { id, email } of recipients) {
      const { allowed, remaining } = await hit(ctx.services, `error_tracking.mail:${id}`, HOURLY);
      const last = `\nYou get no more than ${HOURLY.limit} mails about errors an hour. Further ones of this hour are left out.\n`;
      if (allowed) mails.push({ to: email, subject, text: remaining === 0 ? text + last : text });
    }
    await ctx.transaction(async (tx) => {
      for (const mail of mails) sendMail(tx, mail);
    });
  },
});

/** Leaves out everyone if the project or a group above it has mails turned off. */
const findRecipients = async (
  ctx: Context,
  project: ProjectRow,
): Promise<readonly { readonly id: number; readonly email: string }[]> => {
  const { rows } = await sql<{ id: number; email: string }>`
    select u.id, u.email from error_notifications e
    join users u on u.id = e.user_id
    join projects p on p.id = e.project_id
    join namespaces n on n.id = p.namespace_id
    where e.project_id = ${project.id} and u.state = 'active' and u.user_type = 'human' and u.confirmed_at is not null
      and p.emails_enabled is not false
      and not exists (select from namespaces above where above.id = any (n.traversal_ids) and not above.emails_enabled)
    order by u.id`.execute(ctx.db);
  const readers = await readersByProject(ctx, [{ project, userIds: rows.map(({ id }) => id) }], REPORTER, () => false);
  return rows.filter(({ id }) => readers.get(project.id)?.has(id));
};

const subjectOf = (
  { full_path }: ProjectRow,
  change: ErrorChange,
  [first]: readonly ErrorRow[],
  count: number,
): string =>
  count === 1 && first
    ? `${full_path}: ${HEADINGS[change].toLowerCase()}: ${first.title}`
    : `${full_path}: ${HEADINGS[change].toLowerCase()}: ${count} errors`;

const textOf = (
  ctx: Context,
  project: ProjectRow,
  change: ErrorChange,
  errors: readonly ErrorRow[],
  count: number,
): string =>
  [
    `${HEADINGS[change]} in ${project.full_path}:`,
    '',
    ...errors.flatMap((error) => [
      error.title,
      ...(error.culprit === null ? [] : [`  in ${error.culprit}`]),
      `  ${error.level}, ${error.event_count} event${error.event_count === 1 ? '' : 's'}${error.last_release === null ? '' : `, release ${error.last_release}`}`,
      `  ${errorWebUrl(ctx, project, error)}`,
      '',
    ]),
    ...(count > errors.length ? [`And ${count - errors.length} more.`, ''] : []),
    'You get this mail because you asked for mails about the errors of this project.',
    '',
  ].join('\n');
