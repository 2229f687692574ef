import { z } from 'zod';
import { badParameters } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, hash, type Input, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import type { HookAttributes } from './attributes.ts';
import { createHook, deleteHook, deleteHookValue, rotateSigningToken, setHookValue, updateHook } from './commands.ts';
import { type AttemptStatus, listAttempts } from './deliveries.ts';
import { BRANCH_FILTER_STRATEGIES } from './model.ts';
import { getHook, getHookGroup, listHooks } from './queries.ts';
import { createdHookRecord, hookEventRecord, hookRecord, signingTokenRecord, toHook, toHookEvent } from './record.ts';
import { resendAttempt } from './resend.ts';
import { eachTrigger, type Toggles } from './triggers.ts';

const tag = 'Group hooks';
const entries = list(hash({ key: text(), value: text() }), { max: 100 }).optional();

const attributes = {
  name: text().nullish(),
  description: text().nullish(),
  token: text().nullish(),
  signing_token: text().nullish(),
  enable_ssl_verification: boolean().optional(),
  push_events_branch_filter: text().nullish(),
  branch_filter_strategy: oneOf(BRANCH_FILTER_STRATEGIES).optional(),
  custom_webhook_template: text().nullish(),
  custom_headers: entries,
  url_variables: entries,
};
const toggles = eachTrigger(({ says }) => boolean().optional().describe(says));
const hookInput = { id: idOrPath(), hook_id: integer() };

const toAttributes = (input: Input<typeof attributes & typeof toggles & { url: ReturnType<typeof text> }>) => {
  const on: Partial<Record<keyof Toggles, boolean>> = {};
  eachTrigger(({ name }) => {
    const value = input[name];
    if (value !== undefined) on[name] = value;
  });
  const { url, name, description, token, signing_token, enable_ssl_verification, custom_webhook_template } = input;
  const { push_events_branch_filter, branch_filter_strategy, custom_headers, url_variables } = input;
  return {
    url,
    name,
    description,
    token,
    signing_token,
    enable_ssl_verification,
    custom_webhook_template,
    push_events_branch_filter,
    branch_filter_strategy,
    custom_headers,
    url_variables,
    toggles: on,
  } satisfies HookAttributes;
};

const CLASSES = ['successful', 'client_failure', 'server_failure'] as const;

const readStatus = (status: string | undefined): AttemptStatus | undefined => {
  if (status === undefined || status === '') return undefined;
  const named = CLASSES.find((each) => each === status);
  if (named) return named;
  if (/^[1-5]\d\d$/.test(status)) return Number(status);
  throw badParameters('status does not have a valid value');
};

export const routes = [
  listRoute({
    path: '/groups/:id/hooks',
    tag,
    summary: "List a group's hooks",
    input: { id: idOrPath() },
    paging: 'offset',
    item: hookRecord,
    run: async (ctx, { id }, page) => {
      const found = await readPage(listHooks(ctx, await getHookGroup(ctx, id)), page);
      return { ...found, items: found.items.map(toHook) };
    },
  }),
  route({
    method: 'GET',
    path: '/groups/:id/hooks/:hook_id',
    tag,
    summary: 'Get a hook of a group',
    input: hookInput,
    response: hookRecord,
    run: async (ctx, { id, hook_id }) => toHook(await getHook(ctx, await getHookGroup(ctx, id), hook_id)),
  }),
  route({
    method: 'POST',
    path: '/groups/:id/hooks',
    tag,
    summary: 'Add a hook to a group',
    description: 'The answer holds the signing token that was made for it, once.',
    input: { id: idOrPath(), url: text(), ...attributes, ...toggles },
    response: createdHookRecord,
    run: async (ctx, { id, ...input }) => {
      const { hook, signing_token } = await createHook(ctx, id, toAttributes(input));
      return signing_token === null ? toHook(hook) : { ...toHook(hook), signing_token };
    },
  }),
  route({
    method: 'PUT',
    path: '/groups/:id/hooks/:hook_id',
    tag,
    summary: 'Change a hook of a group',
    description: 'A new URL clears token, signing token, custom headers and URL variables that do not come with it.',
    input: {
      ...hookInput,
      url: text(),
      ...attributes,
      ...toggles,
      service_access_tokens_expiration_enforced: boolean().optional(),
    },
    response: hookRecord,
    run: async (ctx, { id, hook_id, ...input }) => toHook(await updateHook(ctx, id, hook_id, toAttributes(input))),
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/hooks/:hook_id',
    tag,
    summary: 'Remove a hook from a group',
    description: 'Again is fine.',
    input: hookInput,
    response: null,
    run: (ctx, { id, hook_id }) => deleteHook(ctx, id, hook_id),
  }),
  ...valueRoutes('/groups/:id/hooks/:hook_id/custom_headers/:key', 'header', 'custom header'),
  ...valueRoutes('/groups/:id/hooks/:hook_id/url_variables/:key', 'url_variable', 'URL variable'),
  route({
    method: 'POST',
    path: '/groups/:id/hooks/:hook_id/signing_token/rotate',
    tag,
    summary: 'Make a new signing token',
    description: 'For 24 hours the old one signs as well.',
    input: hookInput,
    response: signingTokenRecord,
    run: async (ctx, { id, hook_id }) => ({ signing_token: await rotateSigningToken(ctx, id, hook_id) }),
  }),
  listRoute({
    path: '/groups/:id/hooks/:hook_id/events',
    tag,
    summary: 'List the attempts to deliver to a hook, newest first',
    input: { ...hookInput, status: text({ max: 20 }).optional() },
    paging: 'offset',
    item: hookEventRecord,
    run: async (ctx, { id, hook_id, status }, page) => {
      const wanted = readStatus(status);
      const hook = await getHook(ctx, await getHookGroup(ctx, id), hook_id);
      const found = await readPage(listAttempts(ctx, hook.id, { status: wanted }), page);
      return { ...found, items: found.items.map(toHookEvent) };
    },
  }),
  route({
    method: 'POST',
    path: '/groups/:id/hooks/:hook_id/events/:hook_event_id/resend',
    tag,
    summary: 'Send once more what an attempt sent',
    input: { ...hookInput, hook_event_id: integer() },
    response: z.object({ response_status: z.union([z.int(), z.literal('internal error')]) }).meta({ id: 'Resent' }),
    run: async (ctx, { id, hook_id, hook_event_id }) => {
      const outcome = await resendAttempt(ctx, id, hook_id, hook_event_id);
      return { response_status: outcome.status ?? ('internal error' as const) };
    },
  }),
];

type ValuePath = `/groups/:id/hooks/:hook_id/${'custom_headers' | 'url_variables'}/:key`;

function valueRoutes(path: ValuePath, kind: 'header' | 'url_variable', words: string) {
  const input = { ...hookInput, key: text({ max: 255 }) };
  return [
    route({
      method: 'PUT',
      path,
      tag,
      summary: `Set a ${words} of a hook`,
      input: { ...input, value: text() },
      response: null,
      run: (ctx, { id, hook_id, key, value }) => setHookValue(ctx, id, hook_id, kind, { key, value }),
    }),
    route({
      method: 'DELETE',
      path,
      tag,
      summary: `Remove a ${words} of a hook`,
      input,
      response: null,
      run: (ctx, { id, hook_id, key }) => deleteHookValue(ctx, id, hook_id, kind, key),
    }),
  ];
}
