import { z } from 'zod';
import type { ContainerKind } from '#domains/planning/container.ts';
import { readPage } from '#platform/paging.ts';
import type { Input } from '#rest/input.ts';
import { boolean, hash, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import type { HookAttributes } from './attributes.ts';
import {
  createHook,
  deleteHook,
  deleteHookValue,
  enableHook,
  rotateSigningToken,
  setHookValue,
  updateHook,
} from './commands.ts';
import { testHook } from './manual/testing.ts';
import { BRANCH_FILTER_STRATEGIES, TEST_TRIGGERS, type ValueKind } from './model.ts';
import { getHookContainer } from './policy.ts';
import { getHook, listHooks } from './queries.ts';
import { hookRecords, signingTokenRecord } from './record.ts';
import { deliveryRoutes } from './rest/deliveries.ts';
import { systemRoutes } from './rest/system.ts';
import { eachTrigger, type Toggles, type Trigger } from './triggers.ts';

const TAGS = { group: 'Group hooks', project: 'Project hooks' } as const;
type Path = '/groups/:id' | '/projects/:id';

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
const groupToggles = eachTrigger(({ says }) => boolean().optional().describe(says));
const { subgroup_events: _s, member_events: _m, project_events: _p, ...projectToggles } = groupToggles;
const hookInput = { id: idOrPath(), hook_id: integer() };

type Given = Input<typeof attributes & { url: ReturnType<typeof text> }> & {
  readonly [K in Trigger]?: boolean | undefined;
};

const toAttributes = (input: Given) => {
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

const CREATED = 'The response contains the generated signing token, which is shown only once.';
const CHANGED =
  'A new URL clears the token, signing token, custom headers and URL variables that are not given with it.';

const groupHookRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/groups/:id/hooks',
    tag: TAGS.group,
    summary: 'Add a hook to a group',
    description: CREATED,
    input: { id: idOrPath(), url: text(), ...attributes, ...groupToggles },
    response: hookRecords.group.created,
    run: async (ctx, { id, ...input }) => {
      const { hook, signing_token } = await createHook(ctx, { kind: 'group', id }, toAttributes(input));
      return { ...hookRecords.group.of(hook), ...(signing_token === null ? {} : { signing_token }) };
    },
  }),
  route({
    method: 'PUT',
    path: '/groups/:id/hooks/:hook_id',
    tag: TAGS.group,
    summary: 'Change a hook of a group',
    description: CHANGED,
    input: {
      ...hookInput,
      url: text(),
      ...attributes,
      ...groupToggles,
      service_access_tokens_expiration_enforced: boolean()
        .optional()
        .describe("A setting of the hook's group: whether the tokens of its service accounts must expire."),
    },
    response: hookRecords.group.record,
    run: async (ctx, { id, hook_id, service_access_tokens_expiration_enforced: enforced, ...input }) =>
      hookRecords.group.of(await updateHook(ctx, { kind: 'group', id }, hook_id, toAttributes(input), enforced)),
  }),
  ...commonRoutes('group', '/groups/:id'),
];

const projectHookRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/projects/:id/hooks',
    tag: TAGS.project,
    summary: 'Add a hook to a project',
    description: CREATED,
    input: { id: idOrPath(), url: text(), ...attributes, ...projectToggles },
    response: hookRecords.project.created,
    run: async (ctx, { id, ...input }) => {
      const { hook, signing_token } = await createHook(ctx, { kind: 'project', id }, toAttributes(input));
      return { ...hookRecords.project.of(hook), ...(signing_token === null ? {} : { signing_token }) };
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/hooks/:hook_id',
    tag: TAGS.project,
    summary: 'Change a hook of a project',
    description: CHANGED,
    input: { ...hookInput, url: text(), ...attributes, ...projectToggles },
    response: hookRecords.project.record,
    run: async (ctx, { id, hook_id, ...input }) =>
      hookRecords.project.of(await updateHook(ctx, { kind: 'project', id }, hook_id, toAttributes(input))),
  }),
  ...commonRoutes('project', '/projects/:id'),
];

/** The routes that are the same for groups and projects. */
function commonRoutes(kind: ContainerKind, path: Path): Route[] {
  const tag = TAGS[kind];
  const { record, of } = hookRecords[kind];
  return [
    listRoute({
      path: `${path}/hooks`,
      tag,
      summary: `List the hooks of a ${kind}`,
      input: { id: idOrPath() },
      paging: 'offset',
      item: record,
      run: async (ctx, { id }, page) => {
        const found = await readPage(listHooks(ctx, await getHookContainer(ctx, { kind, id })), page);
        return { ...found, items: found.items.map((hook) => of(hook)) };
      },
    }),
    route({
      method: 'GET',
      path: `${path}/hooks/:hook_id`,
      tag,
      summary: `Get a hook of a ${kind}`,
      input: hookInput,
      response: record,
      run: async (ctx, { id, hook_id }) => of(await getHook(ctx, await getHookContainer(ctx, { kind, id }), hook_id)),
    }),
    route({
      method: 'DELETE',
      path: `${path}/hooks/:hook_id`,
      tag,
      summary: `Remove a hook from a ${kind}`,
      description: 'Deleting a missing hook is not an error.',
      refusals: MODIFIED,
      input: hookInput,
      response: null,
      run: (ctx, { id, hook_id }, http) => deleteHook(ctx, { kind, id }, hook_id, unmodifiedSince(http)),
    }),
    route({
      method: 'POST',
      path: `${path}/hooks/:hook_id/test/:trigger`,
      tag,
      summary: 'Send a test of one kind of event',
      description:
        'Uses the newest data, or a sample if there is none. Sends it at once, even if the hook is disabled. Returns 422 if the receiver does not answer with success.',
      input: { ...hookInput, trigger: oneOf(TEST_TRIGGERS) },
      response: z.object({ message: z.string() }).meta({ id: 'HookTested' }),
      run: async (ctx, { id, hook_id, trigger }) => {
        await testHook(ctx, { kind, id }, hook_id, trigger);
        return { message: '201 Created' };
      },
    }),
    route({
      method: 'POST',
      path: `${path}/hooks/:hook_id/enable`,
      tag,
      summary: 'Enable a disabled hook',
      description: 'Sends its held deliveries. Specific to Millrace.',
      status: 200,
      input: hookInput,
      response: record,
      run: async (ctx, { id, hook_id }) => of(await enableHook(ctx, { kind, id }, hook_id)),
    }),
    route({
      method: 'POST',
      path: `${path}/hooks/:hook_id/signing_token/rotate`,
      tag,
      summary: 'Rotate the signing token',
      description: 'The old token keeps signing for 24 hours.',
      input: hookInput,
      response: signingTokenRecord,
      run: async (ctx, { id, hook_id }) => ({ signing_token: await rotateSigningToken(ctx, { kind, id }, hook_id) }),
    }),
    ...valueRoutes(kind, `${path}/hooks/:hook_id/custom_headers/:key`, 'header', 'custom header'),
    ...valueRoutes(kind, `${path}/hooks/:hook_id/url_variables/:key`, 'url_variable', 'URL variable'),
  ];
}

type ValuePath = `${Path}/hooks/:hook_id/${'custom_headers' | 'url_variables'}/:key`;

function valueRoutes(container: ContainerKind, path: ValuePath, kind: ValueKind, words: string): Route[] {
  const input = { ...hookInput, key: text({ max: 255 }) };
  return [
    route({
      method: 'PUT',
      path,
      tag: TAGS[container],
      summary: `Set a ${words} of a hook`,
      input: { ...input, value: text() },
      response: null,
      run: (ctx, { id, hook_id, key, value }) =>
        setHookValue(ctx, { kind: container, id }, hook_id, kind, { key, value }),
    }),
    route({
      method: 'DELETE',
      path,
      tag: TAGS[container],
      summary: `Remove a ${words} of a hook`,
      input,
      response: null,
      run: (ctx, { id, hook_id, key }) => deleteHookValue(ctx, { kind: container, id }, hook_id, kind, key),
    }),
  ];
}

/** The routes of hooks of groups and projects, and of system hooks. */
export const routes = [
  ...groupHookRoutes,
  ...projectHookRoutes,
  ...deliveryRoutes('group', '/groups/:id'),
  ...deliveryRoutes('project', '/projects/:id'),
  ...systemRoutes,
];
