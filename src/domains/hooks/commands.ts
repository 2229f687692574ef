import { updateGroup } from '#domains/groups/commands.ts';
import type { ContainerOrInstance, OwnerAddress } from '#domains/planning/container.ts';
import { lockContainer, ownerColumns } from '#domains/planning/container.ts';
import { provenance } from '#domains/tokens/origins.ts';
import type { Context, Tx } from '#platform/context.ts';
import { notFound, requireUnchanged } from '#platform/errors.ts';
import { type HookAttributes, type KeyValue, problemsOf } from './attributes.ts';
import {
  changeHook,
  columnsOf,
  hookPayload,
  lockHook,
  refuse,
  saveHook,
  seal,
  urlColumns,
  urlProblems,
  writeValues,
} from './change.ts';
import { webhookCreated, webhookDeleted, webhookUpdated } from './events.ts';
import { MAX_HOOKS, type ValueKind } from './model.ts';
import { getHookOwner, hookScope, lockHookOwner } from './policy.ts';
import { getHook, type HookRow, isOwnedBy } from './queries.ts';
import { newSigningToken } from './signing.ts';

export interface CreatedHook {
  readonly hook: HookRow;
  /** The new signing token, shown only once. Null if the caller chose it. */
  readonly signing_token: string | null;
}

/**
 * Creates a hook of the group, the project or the instance.
 *
 * @throws `not_found` (Group, Project), `forbidden`, `unprocessable` by attribute
 */
export const createHook = async (
  ctx: Context,
  at: OwnerAddress,
  given: HookAttributes & { readonly url: string },
): Promise<CreatedHook> => {
  const seen = await getHookOwner(ctx, at);
  refuse(problemsOf(given));
  const variables = given.url_variables ?? [];
  refuse(await urlProblems(ctx, seen, given.url, variables));
  const signing_token = given.signing_token ? null : newSigningToken();
  const hook = await ctx.transaction(async (tx) => {
    const owner = await lockHookOwner(tx, seen);
    await checkNumber(tx, owner);
    const row = await tx.db
      .insertInto('webhooks')
      .values({
        ...columnsOf(owner.kind, given, null),
        ...urlColumns(tx, given.url),
        ...(owner.kind === 'instance' ? {} : ownerColumns(owner)),
        created_by_id: tx.actor.userId,
        origin_id: (await provenance(tx)).origin_id,
        token: seal(tx, given.token),
        signing_token: seal(tx, given.signing_token || signing_token),
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    await writeValues(tx, row.id, 'header', given.custom_headers ?? []);
    await writeValues(tx, row.id, 'url_variable', variables);
    const made = await getHook(tx, owner, row.id);
    tx.emit(webhookCreated, {
      ...hookScope(owner, made.id),
      payload: { ...hookPayload(made), created_by_id: made.created_by_id, origin: made.origin },
    });
    return made;
  });
  return { hook, signing_token };
};

/** Checks the limit. The lock on the container keeps concurrent requests from exceeding it. */
const checkNumber = async (tx: Tx, owner: ContainerOrInstance): Promise<void> => {
  const { count } = await tx.db
    .selectFrom('webhooks')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where(isOwnedBy(owner))
    .executeTakeFirstOrThrow();
  const most = MAX_HOOKS[owner.kind];
  if (count >= most) refuse({ base: [`Maximum number of ${owner.kind} hooks (${most}) exceeded`] });
};

/**
 * Changes a hook. A new URL clears the secrets that are not given with it: token, signing token, custom headers and URL
 * variables (CVE-2022-4054, CVE-2022-4342). A variable that leads to another server does the same. Any change enables a
 * disabled hook. `enforceTokenExpiry` is a setting of the hook's group that the API accepts among the attributes of its
 * hooks (reference: conventions §9).
 *
 * @throws `not_found`, `forbidden`, `unprocessable` by attribute
 */
export const updateHook = async (
  ctx: Context,
  at: OwnerAddress,
  id: number,
  given: HookAttributes,
  enforceTokenExpiry?: boolean,
): Promise<HookRow> => {
  const container = await getHookOwner(ctx, at);
  const change = { give: () => given, anew: null };
  if (enforceTokenExpiry === undefined || container.kind !== 'group') return changeHook(ctx, container, id, change);
  return ctx.transaction(async (tx) => {
    await lockContainer(tx, container, 'admin_hook');
    await updateGroup(
      tx,
      { id: container.group.id },
      { service_access_tokens_expiration_enforced: enforceTokenExpiry },
    );
    return changeHook(tx, container, id, change);
  });
};

/** Enables a disabled hook and releases its held deliveries. @throws `not_found`, `forbidden` */
export const enableHook = async (ctx: Context, at: OwnerAddress, id: number): Promise<HookRow> =>
  changeHook(ctx, await getHookOwner(ctx, at), id, { give: () => ({}), anew: null });

/**
 * Deletes a hook with its deliveries. Deleting a missing hook is not an error.
 *
 * @throws `not_found` (Group, Project), `forbidden`, `modified`
 */
export const deleteHook = async (
  ctx: Context,
  at: OwnerAddress,
  id: number,
  unchangedSince: Date | null = null,
): Promise<void> => {
  const seen = await getHookOwner(ctx, at);
  await ctx.transaction(async (tx) => {
    const owner = await lockHookOwner(tx, seen);
    const hook = await tx.db
      .deleteFrom('webhooks')
      .where('id', '=', id)
      .where(isOwnedBy(owner))
      .returning(['id', 'namespace_id', 'project_id', 'name', 'url', 'updated_at'])
      .executeTakeFirst();
    if (!hook) return;
    requireUnchanged(hook, unchangedSince);
    tx.emit(webhookDeleted, { ...hookScope(owner, hook.id), payload: hookPayload(hook) });
  });
};

/** Sets a custom header or URL variable. @throws `not_found`, `forbidden`, `unprocessable` */
export const setHookValue = async (
  ctx: Context,
  at: OwnerAddress,
  id: number,
  kind: ValueKind,
  entry: KeyValue,
): Promise<void> => {
  await changeValues(ctx, at, id, kind, entry.key, (values) => [
    ...values.filter(({ key }) => !sameKey(kind, key, entry.key)),
    entry,
  ]);
};

/** Removes a custom header or URL variable. @throws `not_found`, `forbidden`, `unprocessable` if the URL needs it */
export const deleteHookValue = async (
  ctx: Context,
  at: OwnerAddress,
  id: number,
  kind: ValueKind,
  key: string,
): Promise<void> => {
  await changeValues(ctx, at, id, kind, key, (values) => {
    const rest = values.filter((value) => !sameKey(kind, value.key, key));
    if (rest.length === values.length) throw notFound(kind === 'header' ? 'Custom header' : 'URL variable');
    return rest;
  });
};

/**
 * Creates a new signing token and returns it; it is shown only once. The old token keeps signing for a day.
 *
 * @throws `not_found`, `forbidden`
 */
export const rotateSigningToken = async (ctx: Context, at: OwnerAddress, id: number): Promise<string> => {
  const seen = await getHookOwner(ctx, at);
  const token = newSigningToken();
  await ctx.transaction(async (tx) => {
    const owner = await lockHookOwner(tx, seen);
    const before = await lockHook(tx, owner, id);
    await saveHook(tx, id, {
      signing_token: seal(tx, token),
      previous_signing_token: before.signing_token,
      previous_signing_token_until:
        before.signing_token && new Date(tx.clock.now().getTime() + OVERLAP_MS).toISOString(),
    });
    tx.emit(webhookUpdated, {
      ...hookScope(owner, id),
      payload: { ...hookPayload(before), changed: ['signing_token'] },
    });
  });
  return token;
};

/** How long the old signing token signs alongside the new one. */
const OVERLAP_MS = 24 * 3_600_000;

const FIELDS = { header: 'custom_headers', url_variable: 'url_variables' } as const;

const sameKey = (kind: ValueKind, left: string, right: string): boolean =>
  kind === 'header' ? left.toLowerCase() === right.toLowerCase() : left === right;

const changeValues = async (
  ctx: Context,
  at: OwnerAddress,
  id: number,
  kind: ValueKind,
  key: string,
  change: (values: readonly KeyValue[]) => readonly KeyValue[],
): Promise<void> => {
  const container = await getHookOwner(ctx, at);
  await changeHook(ctx, container, id, {
    give: (known) => ({ [FIELDS[kind]]: change(known.filter((value) => value.kind === kind)) }),
    anew: kind === 'url_variable' ? key : null,
  });
};
