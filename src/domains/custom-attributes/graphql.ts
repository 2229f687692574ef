import { builder } from '#graphql/builder.ts';
import { type Loader, loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { deleteCustomAttribute, setCustomAttribute } from './commands.ts';
import type { CustomAttribute, OwnerKind } from './model.ts';
import { customAttributesByIds, ownerExists } from './queries.ts';

/** A key and its text value. */
export const CustomAttributeRef = builder.objectRef<CustomAttribute>('CustomAttribute').implement({
  description: 'A text that administrators store with a user, group or project.',
  fields: (t) => ({
    key: t.exposeString('key', { nullable: false }),
    value: t.exposeString('value', { nullable: false }),
  }),
});

/** Filter for lists. All attributes must match. */
export const CustomAttributeInput = builder.inputType('CustomAttributeInput', {
  fields: (t) => ({ key: t.string({ required: true }), value: t.string({ required: true }) }),
});

/** Converts the filter to the input of the domains. */
export const wantedAttributes = (
  given: readonly CustomAttribute[] | null | undefined,
): Readonly<Record<string, string>> | undefined =>
  given == null ? undefined : Object.fromEntries(given.map(({ key, value }) => [key, value]));

/**
 * Returns a loader for the custom attributes of users, groups or projects. It loads null for callers who are not
 * administrators.
 */
export const customAttributesLoader = (
  kind: OwnerKind,
): ((ctx: Context, id: number) => Promise<readonly CustomAttribute[]> | null) => {
  const load: Loader<number, readonly CustomAttribute[]> = loader((ctx, ids) => customAttributesByIds(ctx, kind, ids));
  return (ctx, id) => (ctx.actor.isAdmin ? load(ctx, id).then((found) => found ?? []) : null);
};

const KINDS: Readonly<Record<string, OwnerKind>> = { User: 'users', Group: 'groups', Project: 'projects' };

const ownerOf = async (ctx: Context, { model, id }: { readonly model: string; readonly id: number }) => {
  const kind = KINDS[model];
  if (kind === undefined || !(await ownerExists(ctx, kind, id))) throw notFound(model);
  return { kind, id };
};

mutationField('customAttributeSet', {
  description: 'Sets a custom attribute of a user, group or project. Administrators only.',
  input: (t) => ({
    ownerId: t.field({ type: 'CustomAttributesOwnerID', required: true }),
    key: t.string({ required: true }),
    value: t.string({ required: true }),
  }),
  payload: { customAttribute: CustomAttributeRef },
  run: async (ctx, { ownerId, key, value }) => {
    const { kind, id } = await ownerOf(ctx, ownerId);
    return { customAttribute: await setCustomAttribute(ctx, kind, id, { key, value }) };
  },
});

mutationField('customAttributeDelete', {
  description: 'Deletes a custom attribute of a user, group or project. Administrators only.',
  input: (t) => ({
    ownerId: t.field({ type: 'CustomAttributesOwnerID', required: true }),
    key: t.string({ required: true }),
  }),
  payload: {},
  run: async (ctx, { ownerId, key }) => {
    const { kind, id } = await ownerOf(ctx, ownerId);
    await deleteCustomAttribute(ctx, kind, id, key);
    return {};
  },
});
