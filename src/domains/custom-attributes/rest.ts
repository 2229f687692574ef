import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { isStorable } from '#platform/values/storable.ts';
import { anyHash, boolean, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { deleteCustomAttribute, setCustomAttribute } from './commands.ts';
import type { CustomAttribute, OwnerKind } from './model.ts';
import { customAttributesByIds, getCustomAttribute, listCustomAttributes } from './queries.ts';

const tag = 'Custom attributes';

const customAttributeRecord = z.object({ key: z.string(), value: z.string() }).meta({ id: 'CustomAttribute' });

/** The field that `withCustomAttributes` can add to a record. */
export const customAttributesField = z.array(customAttributeRecord).optional();

/** The parameter that requests `custom_attributes` in the records. */
export const withCustomAttributesFlag = boolean()
  .optional()
  .describe('Adds `custom_attributes` to the records. Administrators only: ignored for other callers.');

/** The list filter `custom_attributes[key]=value`. All attributes must match. Values are compared as text. */
export const customAttributesFilter = anyHash()
  .describe('`custom_attributes[key]=value`: all of them must match. Administrators only: ignored for other callers.')
  .transform((given, ctx): Readonly<Record<string, string>> => {
    const attributes: [string, string][] = [];
    for (const [key, value] of Object.entries(given)) {
      if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
        if (isStorable(key) && text().safeParse(value).success) {
          attributes.push([key, String(value)]);
          continue;
        }
      }
      ctx.issues.push({ code: 'custom', message: 'is invalid (allowed: a hash, x[key]=value)', input: given });
      return z.NEVER;
    }
    return Object.fromEntries(attributes);
  });

/**
 * Adds `custom_attributes` to the records when an administrator requests them. Otherwise returns the records unchanged.
 */
export const withCustomAttributes = async <R extends { readonly id: number }>(
  ctx: Context,
  kind: OwnerKind,
  records: readonly R[],
  wanted: boolean | undefined,
): Promise<(R & { custom_attributes?: CustomAttribute[] })[]> => {
  if (!wanted || !ctx.actor.isAdmin) return [...records];
  const attributes = await customAttributesByIds(
    ctx,
    kind,
    records.map(({ id }) => id),
  );
  return records.map((record) => ({ ...record, custom_attributes: attributes.get(record.id) ?? [] }));
};

/**
 * Returns the routes below `/users/:id`, `/groups/:id` or `/projects/:id`. `find` throws `not_found` for an unknown
 * owner.
 */
export const customAttributeRoutes = <I>(
  kind: OwnerKind,
  id: z.ZodType<I>,
  find: (ctx: Context, id: I) => Promise<{ readonly id: number }>,
): Route[] => {
  const one = { id, key: text() };
  const scopes = kind === 'users' ? (['api', 'read_api', 'read_user'] as const) : (['api', 'read_api'] as const);
  return [
    route({
      method: 'GET',
      path: `/${kind}/:id/custom_attributes`,
      tag,
      summary: `List the custom attributes of a ${NOUNS[kind]}`,
      admin: true,
      scopes,
      input: { id },
      response: z.array(customAttributeRecord),
      run: async (ctx, input) => listCustomAttributes(ctx, kind, (await find(ctx, input.id)).id),
    }),
    route({
      method: 'GET',
      path: `/${kind}/:id/custom_attributes/:key`,
      tag,
      summary: `Get a custom attribute of a ${NOUNS[kind]}`,
      admin: true,
      scopes,
      input: one,
      response: customAttributeRecord,
      run: async (ctx, input) => getCustomAttribute(ctx, kind, (await find(ctx, input.id)).id, input.key),
    }),
    route({
      method: 'PUT',
      path: `/${kind}/:id/custom_attributes/:key`,
      tag,
      summary: `Set a custom attribute of a ${NOUNS[kind]}`,
      admin: true,
      input: { ...one, value: text() },
      response: customAttributeRecord,
      run: async (ctx, { key, value, ...input }) =>
        setCustomAttribute(ctx, kind, (await find(ctx, input.id)).id, { key, value }),
    }),
    route({
      method: 'DELETE',
      path: `/${kind}/:id/custom_attributes/:key`,
      tag,
      summary: `Delete a custom attribute of a ${NOUNS[kind]}`,
      admin: true,
      input: one,
      response: null,
      run: async (ctx, input) => deleteCustomAttribute(ctx, kind, (await find(ctx, input.id)).id, input.key),
    }),
  ];
};

const NOUNS = { users: 'user', groups: 'group', projects: 'project' } as const;
