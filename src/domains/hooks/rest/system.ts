import { z } from 'zod';
import { readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { boolean, hash, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { createHook, deleteHook, updateHook } from '../commands.ts';
import { testSystemHook } from '../manual/testing.ts';
import { ALERT_STATUSES, alertStatus, BRANCH_FILTER_STRATEGIES } from '../model.ts';
import { getHookOwner } from '../policy.ts';
import { getHook, type HookRow, listHooks } from '../queries.ts';
import { SYSTEM_TOGGLES } from '../triggers.ts';

const tag = 'System hooks';
const SYSTEM = { kind: 'instance' } as const;
const entries = list(hash({ key: text(), value: text() }), { max: 100 }).optional();

const attributes = {
  name: text().nullish(),
  description: text().nullish(),
  token: text().nullish(),
  signing_token: text().nullish(),
  enable_ssl_verification: boolean().optional(),
  push_events_branch_filter: text().nullish(),
  branch_filter_strategy: oneOf(BRANCH_FILTER_STRATEGIES).optional(),
  custom_headers: entries,
  url_variables: entries,
  push_events: boolean().optional(),
  tag_push_events: boolean().optional(),
  merge_requests_events: boolean().optional(),
  repository_update_events: boolean().optional(),
};

type Toggles = { readonly [K in (typeof SYSTEM_TOGGLES)[number]]?: boolean | undefined };

/** Separates the toggles from the other attributes. */
const withToggles = <T extends Toggles>(given: T) => {
  const { push_events, tag_push_events, merge_requests_events, repository_update_events, ...rest } = given;
  const all = { push_events, tag_push_events, merge_requests_events, repository_update_events };
  const toggles: Partial<Record<keyof Toggles, boolean>> = {};
  for (const name of SYSTEM_TOGGLES) {
    const value = all[name];
    if (value !== undefined) toggles[name] = value;
  }
  return { ...rest, toggles };
};

const keys = z.array(z.object({ key: z.string() }));
const record = z.object({
  id: z.int(),
  url: z.string().describe('Credentials are masked. URL variables appear as placeholders.'),
  name: z.string(),
  description: z.string(),
  created_at: z.string(),
  push_events: z.boolean(),
  tag_push_events: z.boolean(),
  merge_requests_events: z.boolean(),
  repository_update_events: z.boolean(),
  push_events_branch_filter: z.string().nullable(),
  branch_filter_strategy: z.string(),
  enable_ssl_verification: z.boolean(),
  alert_status: z.enum(ALERT_STATUSES),
  disabled_until: z.string().nullable(),
  url_variables: keys,
  custom_headers: keys,
});
const systemHookRecord = record.meta({ id: 'SystemHook' });
const createdRecord = record
  .extend({ signing_token: z.string().optional().describe('Shown only once. Absent if the caller chose it.') })
  .meta({ id: 'CreatedSystemHook' });

const toSystemHook = (hook: HookRow): z.output<typeof record> => ({
  id: hook.id,
  url: hook.url,
  name: hook.name,
  description: hook.description,
  created_at: isoTime(hook.created_at),
  push_events: hook.triggers.includes('push_events'),
  tag_push_events: hook.triggers.includes('tag_push_events'),
  merge_requests_events: hook.triggers.includes('merge_requests_events'),
  repository_update_events: hook.triggers.includes('repository_update_events'),
  push_events_branch_filter: hook.push_events_branch_filter,
  branch_filter_strategy: hook.branch_filter_strategy,
  enable_ssl_verification: hook.enable_ssl_verification,
  alert_status: alertStatus(hook),
  disabled_until: isoTime(hook.disabled_until),
  url_variables: hook.variable_keys.map((key) => ({ key })),
  custom_headers: hook.header_keys.map((key) => ({ key })),
});

export const systemRoutes = [
  listRoute({
    path: '/hooks',
    tag,
    summary: 'List the system hooks',
    description: 'For administrators. Oldest first.',
    input: {},
    paging: 'offset',
    item: systemHookRecord,
    run: async (ctx, _input, page) => {
      const found = await readPage(listHooks(ctx, await getHookOwner(ctx, SYSTEM)), page);
      return { ...found, items: found.items.map(toSystemHook) };
    },
  }),
  route({
    method: 'GET',
    path: '/hooks/:hook_id',
    tag,
    summary: 'Get a system hook',
    description: 'For administrators.',
    input: { hook_id: integer() },
    response: systemHookRecord,
    run: async (ctx, { hook_id }) => toSystemHook(await getHook(ctx, await getHookOwner(ctx, SYSTEM), hook_id)),
  }),
  route({
    method: 'POST',
    path: '/hooks',
    tag,
    summary: 'Add a system hook',
    description:
      'For administrators. System hooks hear of all users, groups, projects and members that are created or removed. Pushes and merge requests can be switched on; `repository_update_events` are on by default. The response contains the generated signing token, which is shown only once.',
    input: { url: text(), ...attributes },
    response: createdRecord,
    run: async (ctx, { url, ...input }) => {
      const { hook, signing_token } = await createHook(ctx, SYSTEM, { url, ...withToggles(input) });
      return { ...toSystemHook(hook), ...(signing_token === null ? {} : { signing_token }) };
    },
  }),
  route({
    method: 'PUT',
    path: '/hooks/:hook_id',
    tag,
    summary: 'Change a system hook',
    description:
      'For administrators. A new URL clears the token, signing token, custom headers and URL variables that are not given with it. Any change enables a disabled hook.',
    input: { hook_id: integer(), url: text().optional(), ...attributes },
    response: systemHookRecord,
    run: async (ctx, { hook_id, ...input }) => toSystemHook(await updateHook(ctx, SYSTEM, hook_id, withToggles(input))),
  }),
  route({
    method: 'POST',
    path: '/hooks/:hook_id',
    tag,
    summary: 'Test a system hook',
    description:
      'For administrators. Sends a sample at once, and returns it. 422 if the receiver does not answer with success.',
    input: { hook_id: integer() },
    response: z.record(z.string(), z.unknown()).meta({ id: 'SystemHookSample' }),
    run: (ctx, { hook_id }) => testSystemHook(ctx, hook_id),
  }),
  route({
    method: 'DELETE',
    path: '/hooks/:hook_id',
    tag,
    summary: 'Remove a system hook',
    description: 'For administrators. Deleting a missing hook is not an error.',
    refusals: MODIFIED,
    input: { hook_id: integer() },
    response: null,
    run: (ctx, { hook_id }, http) => deleteHook(ctx, SYSTEM, hook_id, unmodifiedSince(http)),
  }),
] satisfies readonly Route[];
