import type { ContainerKind } from '#domains/planning/container.ts';
import { mapRecord } from '#platform/values/map-record.ts';
import { boolean, idOrPath, integer, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { createPushRule, deletePushRule, updatePushRule } from './commands.ts';
import { FLAGS, MAX_FILE_SIZE, PATTERNS } from './model.ts';
import { findPushRule, getPushRule } from './queries.ts';
import { pushRuleRecords } from './record.ts';

const tag = 'Push rules';

const attributes = {
  ...mapRecord(FLAGS, (refused) => boolean().optional().describe(`Refuse: ${refused}`)),
  ...mapRecord(PATTERNS, (description) => text().nullish().describe(description)),
  max_file_size: integer().nullish().describe(MAX_FILE_SIZE),
};

const pushRuleRoutes = (kind: ContainerKind, path: '/groups/:id/push_rule' | '/projects/:id/push_rule'): Route[] => {
  const { record, of } = pushRuleRecords[kind];
  return [
    route({
      method: 'POST',
      path,
      tag,
      summary: `Create the push rule of a ${kind}`,
      description: 'Answers 422 if it already has one.',
      input: { id: idOrPath(), ...attributes },
      response: record,
      run: async (ctx, { id, ...given }) => of(await createPushRule(ctx, { kind, id }, given)),
    }),
    route({
      method: 'PUT',
      path,
      tag,
      summary: `Change the push rule of a ${kind}`,
      input: { id: idOrPath(), ...attributes },
      response: record,
      run: async (ctx, { id, ...given }) => of(await updatePushRule(ctx, { kind, id }, given)),
    }),
    route({
      method: 'DELETE',
      path,
      tag,
      summary: `Delete the push rule of a ${kind}`,
      refusals: MODIFIED,
      input: { id: idOrPath() },
      response: null,
      run: (ctx, { id }, http) => deletePushRule(ctx, { kind, id }, unmodifiedSince(http)),
    }),
  ];
};

export const routes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/groups/:id/push_rule',
    tag,
    summary: 'Get the push rule of a group',
    description:
      'The rule of this group itself. Answers 404 if it has none, even if the rule of a group above applies.',
    input: { id: idOrPath() },
    response: pushRuleRecords.group.record,
    run: async (ctx, { id }) => pushRuleRecords.group.of(await getPushRule(ctx, { kind: 'group', id })),
  }),
  route({
    method: 'GET',
    path: '/projects/:id/push_rule',
    tag,
    summary: 'Get the push rule of a project',
    description: 'The rule of this project itself. `null` if it has none, even if the rule of a group above applies.',
    input: { id: idOrPath() },
    response: pushRuleRecords.project.record.nullable(),
    run: async (ctx, { id }) => {
      const rule = await findPushRule(ctx, { kind: 'project', id });
      return rule && pushRuleRecords.project.of(rule);
    },
  }),
  ...pushRuleRoutes('group', '/groups/:id/push_rule'),
  ...pushRuleRoutes('project', '/projects/:id/push_rule'),
];
