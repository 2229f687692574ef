import { sql } from 'kysely';
import { z } from 'zod';
import { addressesOfHolders } from '#domains/access/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { alertStatus } from '../model.ts';
import { LEAST_ROLES } from '../policy.ts';

const MAX_RECIPIENTS = 100;
/** At most one mail a day about temporary failures. Each permanent one is announced. */
const ONCE_A_DAY = { limit: 1, seconds: 86_400 } as const;

/** The job `hooks.disabled`: mails the people who administer a hook that it was disabled. */
export const mailOwners = defineJob({
  name: 'hooks.disabled',
  input: z.object({ webhook_id: z.number() }).strict(),
  maxAttempts: 5,
  run: async (ctx, { webhook_id }) => {
    const hook = await findDisabled(ctx, webhook_id);
    if (!hook) return;
    const isForGood = alertStatus(hook) === 'disabled';
    if (!isForGood && !(await hit(ctx.services, `hooks.disabled:${webhook_id}`, ONCE_A_DAY)).allowed) return;
    const [place, least] =
      hook.project_id === null
        ? ([{ namespace_id: hook.namespace_id ?? 0 }, LEAST_ROLES.group] as const)
        : ([{ project_id: hook.project_id }, LEAST_ROLES.project] as const);
    const addresses = await addressesOfHolders(ctx, place, least, MAX_RECIPIENTS);
    const { webhook_delivery_retention_days: days } = await getSettings(ctx);
    const what = hook.name === '' ? 'A webhook' : `The webhook "${hook.name}"`;
    const subject = `${what} of ${hook.path} was disabled`;
    const text = [
      `${what} of the ${hook.project_id === null ? 'group' : 'project'} ${hook.path} was disabled${isForGood ? '' : ' for a while'}.`,
      '',
      `Address:   ${hook.url}`,
      ...(hook.made_by === null
        ? [`Failures:  ${hook.recent_failures} in a row`, `Last:      ${hook.last_error ?? 'unknown'}`]
        : [`Reason:    access of the application that created it, ${hook.made_by}, was revoked`]),
      '',
      isForGood
        ? 'It is not retried automatically. To enable it, test it successfully, change it, or enable it yourself.'
        : 'It is retried automatically with growing delays, and is enabled after the first success.',
      `Its deliveries are kept for ${days} days and are sent once it is enabled.`,
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
  /** The application that created the hook, if its OAuth grant has ended and this disabled the hook. */
  readonly made_by: string | null;
}

/** Returns null if the hook is enabled or gone, or if its project, group or a parent group has mails turned off. */
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
