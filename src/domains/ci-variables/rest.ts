import { readPage } from '#platform/paging.ts';
import { boolean, hash, idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { createVariable, deleteVariable, updateVariable } from './commands.ts';
import { VARIABLE_TYPES } from './model.ts';
import { getVariable, listVariables } from './queries.ts';
import { instanceVariableRecord, toInstanceVariable, toVariable, variableRecord } from './record.ts';

const tag = 'CI/CD variables';
const INSTANCE = { kind: 'instance' } as const;

const attributes = {
  variable_type: oneOf(VARIABLE_TYPES).optional(),
  protected: boolean().optional().describe('Only jobs of protected branches and tags get it.'),
  masked: boolean().optional().describe('The value is hidden in logs.'),
  raw: boolean().optional().describe('References to other variables in the value are left alone.'),
  description: text().nullish(),
};
const environment_scope = text().optional().describe('The environments whose jobs get it. `*` matches anything.');
const key = text();
const filter = hash({ environment_scope: text().optional() })
  .optional()
  .describe('Selects one of several variables with the same key.');

const variableRoutes = (
  kind: 'group' | 'project',
  path: '/groups/:id/variables' | '/projects/:id/variables',
): readonly Route[] => [
  listRoute({
    path,
    tag,
    summary: `List the variables of a ${kind}`,
    paging: 'offset',
    input: { id: idOrPath() },
    item: variableRecord,
    run: async (ctx, { id }, page) => {
      const found = await readPage(await listVariables(ctx, { kind, id }), page);
      return { ...found, items: found.items.map((row) => toVariable(ctx, row)) };
    },
  }),
  route({
    method: 'POST',
    path,
    tag,
    summary: `Create a variable of a ${kind}`,
    input: {
      id: idOrPath(),
      key,
      value: text(),
      ...attributes,
      environment_scope,
      masked_and_hidden: boolean().optional().describe('Masked, and the value is never shown again.'),
    },
    response: variableRecord,
    run: async (ctx, { id, ...given }) => toVariable(ctx, await createVariable(ctx, { kind, id }, given)),
  }),
  route({
    method: 'GET',
    path: `${path}/:key`,
    tag,
    summary: `Get a variable of a ${kind}`,
    input: { id: idOrPath(), key, filter },
    response: variableRecord,
    run: async (ctx, { id, key, filter }) => toVariable(ctx, await getVariable(ctx, { kind, id }, { key, ...filter })),
  }),
  route({
    method: 'PUT',
    path: `${path}/:key`,
    tag,
    summary: `Change a variable of a ${kind}`,
    input: {
      id: idOrPath(),
      key,
      value: text().optional(),
      ...attributes,
      environment_scope,
      masked_and_hidden: boolean().optional().describe('Refused unless the variable is hidden already.'),
      filter,
    },
    response: variableRecord,
    run: async (ctx, { id, key, filter, ...given }) =>
      toVariable(ctx, await updateVariable(ctx, { kind, id }, { key, ...filter }, given)),
  }),
  route({
    method: 'DELETE',
    path: `${path}/:key`,
    tag,
    summary: `Delete a variable of a ${kind}`,
    refusals: MODIFIED,
    input: { id: idOrPath(), key, filter },
    response: null,
    run: async (ctx, { id, key, filter }, http) => {
      await deleteVariable(ctx, { kind, id }, { key, ...filter }, unmodifiedSince(http));
    },
  }),
];

export const routes: readonly Route[] = [
  ...variableRoutes('project', '/projects/:id/variables'),
  ...variableRoutes('group', '/groups/:id/variables'),
  listRoute({
    path: '/admin/ci/variables',
    tag,
    summary: 'List the variables of the instance',
    admin: true,
    paging: 'offset',
    item: instanceVariableRecord,
    run: async (ctx, _input, page) => {
      const found = await readPage(await listVariables(ctx, INSTANCE), page);
      return { ...found, items: found.items.map((row) => toInstanceVariable(ctx, row)) };
    },
  }),
  route({
    method: 'POST',
    path: '/admin/ci/variables',
    tag,
    summary: 'Create a variable of the instance',
    admin: true,
    input: { key, value: text(), ...attributes },
    response: instanceVariableRecord,
    run: async (ctx, given) => toInstanceVariable(ctx, await createVariable(ctx, INSTANCE, given)),
  }),
  route({
    method: 'GET',
    path: '/admin/ci/variables/:key',
    tag,
    summary: 'Get a variable of the instance',
    admin: true,
    input: { key },
    response: instanceVariableRecord,
    run: async (ctx, name) => toInstanceVariable(ctx, await getVariable(ctx, INSTANCE, name)),
  }),
  route({
    method: 'PUT',
    path: '/admin/ci/variables/:key',
    tag,
    summary: 'Change a variable of the instance',
    admin: true,
    input: { key, value: text().optional(), ...attributes },
    response: instanceVariableRecord,
    run: async (ctx, { key, ...given }) => toInstanceVariable(ctx, await updateVariable(ctx, INSTANCE, { key }, given)),
  }),
  route({
    method: 'DELETE',
    path: '/admin/ci/variables/:key',
    tag,
    summary: 'Delete a variable of the instance',
    admin: true,
    refusals: MODIFIED,
    input: { key },
    response: null,
    run: async (ctx, name, http) => {
      await deleteVariable(ctx, INSTANCE, name, unmodifiedSince(http));
    },
  }),
];
