import { sql } from 'kysely';
import { z } from 'zod';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { sendMail } from '#platform/mail.ts';
import { hit } from '#platform/rate-limit.ts';
import { alertStatus } from './model.ts';
import { LEAST_ROLES } from './policy.ts';

const MAX_RECIPIENTS = 100;
/** A hook that is disabled and live again all day is told of once: each time it is disabled for good is news. */
const ONCE_A_DAY = { limit: 1, seconds: 86_400 } as const;

/** The job `hooks.disabled`: tells those who administer a hook that it was disabled, where mails may be sent to them. */
export const tellOwners = defineJob({
  name: 'hooks.disabled',
  input: z.object({ webhook_id: z.number() }).strict(),
  maxAttempts: 5,
  run: async (ctx, { webhook_id }) => {
    const hook = await findDisabled(ctx, webhook_id);
    if (!hook) return;
    const isForGood = alertStatus(hook) === 'disabled';
    if (!isForGood && !(await hit(ctx.services, `hooks.disabled:${webhook_id}`, ONCE_A_DAY)).allowed) return;
    const addresses = await addressesOf(ctx, hook);
    const { webhook_delivery_retention_days: days } = await getSettings(ctx);
    const what = hook.name === '' ? 'A webhook' : `The webhook "${hook.name}"`;
    const subject = `${what} of ${hook.path} was disabled`;
    const text = [
      `${what} of the ${hook.project_id === null ? 'group' : 'project'} ${hook.path} was disabled${isForGood ? '' : ' for a while'}.`,
      '',
      `Address:   ${hook.url}`,
      ...(hook.made_by === null
        ? [`Failures:  ${hook.recent_failures} in a row`, `Last:      ${hook.last_error ?? 'unknown'}`]
        : [`Reason:    the application that made it, ${hook.made_by}, was shut out`]),
      '',
      isForGood
        ? 'It is not tried again by itself. A successful test, a change of it, or enabling it makes it live again.'
        : 'It is tried again by itself with growing pauses, and is live again after the first success.',
      `What it would have been told meanwhile is kept for ${days} days and is sent then.`,
      '',
    ].join('\n');
    await ctx.transaction(async (tx) => {
      for (const to of addresses) sendMail(tx, { to, subject, text });
    });
  },
});

interface Disabled {
  readonly namespace_id: number | null;
  readonly project_id: number | null;
  readonly name: string;
  readonly url: string;
  readonly path: string;
  readonly recent_failures: number;
  readonly disabled_permanently: boolean;
  readonly disabled_until: string | null;
  readonly last_error: string | null;
  /** The application whose OAuth grant has ended, with which the hook did. */
  readonly made_by: string | null;
}

/** Null where it is live again, or gone, or where its group or project, or a group above, wants no mails. */
const findDisabled = async (ctx: Context, id: number): Promise<Disabled | null> => {
  const { rows } = await sql<Disabled>`
    select h.namespace_id, h.project_id, h.name, h.url, coalesce(p.full_path, n.full_path) as path, h.recent_failures,
      h.disabled_permanently, h.disabled_until,
      (select a.error from webhook_attempts a where a.webhook_id = h.id and a.error is not null
        order by a.id desc limit 1) as last_error,
      (select coalesce(o.application_name, 'a program that had a password') from credential_origins o
        where o.id = h.origin_id and o.ended_at is not null and h.disabled_permanently) as made_by
    from webhooks h
    left join projects p on p.id = h.project_id
    join namespaces n on n.id = coalesce(h.namespace_id, p.namespace_id)
    where h.id = ${id} and (h.disabled_permanently or h.disabled_until is not null)
      and p.emails_enabled is not false
      and not exists (select from namespaces above where above.id = any (n.traversal_ids) and not above.emails_enabled)`.execute(
    ctx.db,
  );
  return rows[0] ?? null;
};

/** Those who hold the role as members, their own or of a group above; not by way of a share. */
const addressesOf = async (ctx: Context, { namespace_id, project_id }: Disabled): Promise<string[]> => {
  const least = LEAST_ROLES[project_id === null ? 'group' : 'project'];
  const { rows } = await sql<{ email: string }>`
    select u.email from users u
    where u.state = 'active' and u.user_type = 'human' and u.confirmed_at is not null and u.id in (
      select a.user_id from namespace_access a
      where a.namespace_id = coalesce(${namespace_id}::bigint, (select namespace_id from projects where id = ${project_id}))
        and not a.via_share and a.access_level >= ${least} and a.expires_at > current_date
      union
      select m.user_id from members m
      where m.project_id = ${project_id} and m.access_level >= ${least}
        and (m.expires_at is null or m.expires_at > current_date))
    order by u.id limit ${sql.lit(MAX_RECIPIENTS)}`.execute(ctx.db);
  return rows.map(({ email }) => email);
};
