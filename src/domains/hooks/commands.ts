import { isDeepStrictEqual } from 'node:util';
import { type Selectable, sql, type Updateable } from 'kysely';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { Webhooks } from '#platform/db/tables.ts';
import { type FieldErrors, notFound, unprocessable } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { encrypt } from '#platform/secrets.ts';
import { fillUrl, shownUrl } from './address.ts';
import { addressProblem, type HookAttributes, isFilter, type KeyValue, problemsOf } from './attributes.ts';
import { releaseHeld } from './delivery/health.ts';

import { webhookCreated, webhookDeleted, webhookUpdated } from './events.ts';
import { MAX_HOOKS_PER_GROUP } from './model.ts';
import { OWNER_SCOPE } from './policy.ts';
import { getHook, getHookGroup, type HookRow } from './queries.ts';
import { unseal, valuesOf } from './secrets.ts';
import { newSigningToken } from './signing.ts';
import { eachTrigger, isTrigger, TRIGGERS } from './triggers.ts';

export interface CreatedHook {
  readonly hook: HookRow;
  /** The only time that it is seen; null where the caller gave it himself. */
  readonly signing_token: string | null;
}

/**
 * Makes a hook of the group, for its owners.
 *
 * @throws `not_found` (Group), `forbidden`, `unprocessable` by attribute
 */
export const createHook = async (
  ctx: Context,
  groupId: IdOrPath,
  given: HookAttributes & { readonly url: string },
): Promise<CreatedHook> => {
  const group = await getHookGroup(ctx, groupId);
  refuse(problemsOf(given));
  const variables = given.url_variables ?? [];
  refuse(await urlProblems(ctx, given.url, variables));
  const signing_token = given.signing_token ? null : newSigningToken();
  const hook = await ctx.transaction(async (tx) => {
    await tx.db.selectFrom('namespaces').select('id').where('id', '=', group.id).forNoKeyUpdate().executeTakeFirst();
    const { count } = await tx.db
      .selectFrom('webhooks')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('namespace_id', '=', group.id)
      .executeTakeFirstOrThrow();
    if (count >= MAX_HOOKS_PER_GROUP)
      refuse({ base: [`Maximum number of group hooks (${MAX_HOOKS_PER_GROUP}) exceeded`] });
    const row = await tx.db
      .insertInto('webhooks')
      .values({
        ...columnsOf(given, null),
        ...urlColumns(tx, given.url),
        namespace_id: group.id,
        created_by_id: tx.actor.userId,
        token: seal(tx, given.token),
        signing_token: seal(tx, given.signing_token || signing_token),
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    await writeValues(tx, row.id, 'header', given.custom_headers ?? []);
    await writeValues(tx, row.id, 'url_variable', variables);
    const made = await getHook(tx, group, row.id);
    tx.emit(webhookCreated, { ...scopeOf(group, made), payload: described(made) });
    return made;
  });
  return { hook, signing_token };
};

/**
 * Changes a hook. A new URL clears the secrets that are not given anew with it: token, signing token, custom headers and
 * URL variables (CVE-2022-4054, CVE-2022-4342); so does a variable that leads to another server. Any change makes a disabled hook live again.
 *
 * @throws `not_found`, `forbidden`, `unprocessable` by attribute
 */
export const updateHook = async (
  ctx: Context,
  groupId: IdOrPath,
  id: number,
  given: HookAttributes,
): Promise<HookRow> => {
  const group = await getHookGroup(ctx, groupId);
  return changeHook(ctx, group, id, { give: () => given, anew: null });
};

/** Removes a hook with its deliveries. One that is not there is fine. @throws `not_found` (Group), `forbidden` */
export const deleteHook = async (ctx: Context, groupId: IdOrPath, id: number): Promise<void> => {
  const group = await getHookGroup(ctx, groupId);
  await ctx.transaction(async (tx) => {
    const hook = await tx.db
      .deleteFrom('webhooks')
      .where('id', '=', id)
      .where('namespace_id', '=', group.id)
      .returning(['id', 'namespace_id', 'project_id', 'name', 'url'])
      .executeTakeFirst();
    if (hook) tx.emit(webhookDeleted, { ...scopeOf(group, hook), payload: described(hook) });
  });
};

/** Gives a custom header or URL variable a value. @throws `not_found`, `forbidden`, `unprocessable` */
export const setHookValue = async (
  ctx: Context,
  groupId: IdOrPath,
  id: number,
  kind: ValueKind,
  entry: KeyValue,
): Promise<void> => {
  await changeValues(ctx, groupId, id, kind, entry.key, (values) => [
    ...values.filter(({ key }) => !sameKey(kind, key, entry.key)),
    entry,
  ]);
};

/** Takes a custom header or URL variable away. @throws `not_found`, `forbidden`, `unprocessable` where the URL needs it */
export const deleteHookValue = async (
  ctx: Context,
  groupId: IdOrPath,
  id: number,
  kind: ValueKind,
  key: string,
): Promise<void> => {
  await changeValues(ctx, groupId, id, kind, key, (values) => {
    const rest = values.filter((value) => !sameKey(kind, value.key, key));
    if (rest.length === values.length) throw notFound(kind === 'header' ? 'Custom header' : 'URL variable');
    return rest;
  });
};

/**
 * Makes a new signing token, which is seen only here. For a day the old one signs as well.
 *
 * @throws `not_found`, `forbidden`
 */
export const rotateSigningToken = async (ctx: Context, groupId: IdOrPath, id: number): Promise<string> => {
  const group = await getHookGroup(ctx, groupId);
  const token = newSigningToken();
  await ctx.transaction(async (tx) => {
    const before = await lockHook(tx, group, id);
    await saveHook(tx, id, {
      signing_token: seal(tx, token),
      previous_signing_token: before.signing_token,
      previous_signing_token_until:
        before.signing_token && new Date(tx.clock.now().getTime() + OVERLAP_MS).toISOString(),
    });
    tx.emit(webhookUpdated, {
      ...scopeOf(group, before),
      payload: { ...described(before), changed: ['signing_token'] },
    });
  });
  return token;
};

/** So long the old signing token signs beside the new one. */
const OVERLAP_MS = 24 * 3_600_000;

type ValueKind = 'header' | 'url_variable';
const FIELDS = { header: 'custom_headers', url_variable: 'url_variables' } as const;

const sameKey = (kind: ValueKind, left: string, right: string): boolean =>
  kind === 'header' ? left.toLowerCase() === right.toLowerCase() : left === right;

const changeValues = async (
  ctx: Context,
  groupId: IdOrPath,
  id: number,
  kind: ValueKind,
  key: string,
  change: (values: readonly KeyValue[]) => readonly KeyValue[],
): Promise<void> => {
  const group = await getHookGroup(ctx, groupId);
  await changeHook(ctx, group, id, {
    give: (known) => ({ [FIELDS[kind]]: change(known.filter((value) => value.kind === kind)) }),
    anew: kind === 'url_variable' ? key : null,
  });
};

interface Change {
  /** What is said of the hook, given its headers and variables as they are. */
  readonly give: (known: readonly (KeyValue & { readonly kind: ValueKind })[]) => HookAttributes;
  /** The one URL variable that is given, where the others are only repeated. */
  readonly anew: string | null;
}

interface Plan {
  readonly given: HookAttributes;
  readonly url: string;
  readonly variables: readonly KeyValue[];
  /** It leads elsewhere than before: secrets that were given for there must not go along. */
  readonly moved: boolean;
  readonly isNew: boolean;
}

/** Where the hook will lead. A variable that makes it another server moves it as a new URL does. */
const planChange = async (ctx: Context, before: Selectable<Webhooks>, { give, anew }: Change): Promise<Plan> => {
  const knownUrl = before.sealed_url ? unseal(ctx, before.sealed_url) : before.url;
  const values = await valuesOf(ctx, before.id);
  const known = values.filter(({ kind }) => kind === 'url_variable');
  const given = give(values);
  refuse(problemsOf(given));
  // Who sends back what he read does not mean to change the credentials that he did not see.
  const url = given.url === undefined || given.url === before.url ? knownUrl : given.url;
  const variables = (given.url_variables ?? (url === knownUrl ? known : [])).map(({ key, value }) => ({ key, value }));
  const moved = url !== knownUrl || originOf(url, variables) !== originOf(knownUrl, known);
  return {
    given,
    url,
    variables: moved && anew !== null ? variables.filter(({ key }) => key === anew) : variables,
    moved,
    isNew: moved || given.url_variables !== undefined,
  };
};

const originOf = (url: string, variables: readonly KeyValue[]): string | null =>
  URL.parse(filledUrl(url, variables))?.origin ?? null;

const filledUrl = (url: string, variables: readonly KeyValue[]): string =>
  fillUrl(url, new Map(variables.map(({ key, value }) => [key, value])));

const changeHook = async (ctx: Context, group: GroupRow, id: number, change: Change): Promise<HookRow> => {
  const seen = await planChange(ctx, await findStored(ctx, group, id), change);
  if (seen.isNew) refuse(await urlProblems(ctx, seen.url, seen.variables));
  return ctx.transaction(async (tx) => {
    const before = await lockHook(tx, group, id);
    const { given, url, variables, moved, isNew } = await planChange(tx, before, change);
    // Names are resolved before the row is locked, and once more only where somebody else changed it meanwhile.
    if (isNew && !isDeepStrictEqual([url, variables], [seen.url, seen.variables]))
      refuse(await urlProblems(tx, url, variables));
    const changes: Updateable<Webhooks> = { ...columnsOf(given, before), ...urlColumns(tx, url) };
    if (given.token !== undefined || moved) changes.token = seal(tx, given.token);
    if (given.signing_token !== undefined || moved) {
      changes.signing_token = seal(tx, given.signing_token);
      changes.previous_signing_token = null;
      changes.previous_signing_token_until = null;
    }
    await saveHook(tx, id, { ...changes, recent_failures: 0, disabled_until: null, disabled_permanently: false });
    if (moved || given.custom_headers !== undefined) await writeValues(tx, id, 'header', given.custom_headers ?? []);
    if (isNew) await writeValues(tx, id, 'url_variable', variables);
    await releaseHeld(tx.db, [id]);
    const hook = await getHook(tx, group, id);
    const changed = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name]));
    tx.emit(webhookUpdated, { ...scopeOf(group, hook), payload: { ...described(hook), changed } });
    return hook;
  });
};

const refuse = (problems: FieldErrors): void => {
  if (Object.keys(problems).length > 0)
    throw unprocessable(
      Object.entries(problems)
        .map(([field, sentences]) => (field === 'base' ? sentences.join(', ') : `${field} ${sentences.join(', ')}`))
        .join(', '),
      problems,
    );
};

const urlProblems = async (ctx: Context, url: string, variables: readonly KeyValue[]): Promise<FieldErrors> => {
  const problem = await addressProblem(ctx, url, filledUrl(url, variables));
  return problem === null ? {} : { url: [problem] };
};

/** What is told of the URL, and where it carries a password, the whole of it sealed. */
const urlColumns = (ctx: Context, url: string) => {
  const shown = shownUrl(url);
  return { url: shown, sealed_url: shown === url ? null : seal(ctx, url) };
};

const seal = (ctx: Context, secret: string | null | undefined): Buffer | null =>
  secret ? encrypt(ctx.services.secretKey, secret) : null;

/** The plain columns. `before` is null for a new hook. */
const columnsOf = (given: HookAttributes, before: Selectable<Webhooks> | null) => {
  const strategy = given.branch_filter_strategy ?? before?.branch_filter_strategy ?? 'wildcard';
  const filter =
    given.push_events_branch_filter === undefined
      ? (before?.push_events_branch_filter ?? '')
      : (given.push_events_branch_filter ?? '');
  if (strategy !== 'all_branches' && !isFilter(strategy, filter)) refuse({ push_events_branch_filter: ['is invalid'] });
  const toggles = given.toggles ?? {};
  const on = eachTrigger((info) => toggles[info.name] ?? before?.triggers.includes(info.name) ?? info.byDefault);
  return {
    name: given.name === undefined ? (before?.name ?? '') : (given.name ?? ''),
    description: given.description === undefined ? (before?.description ?? '') : (given.description ?? ''),
    custom_webhook_template:
      given.custom_webhook_template === undefined
        ? (before?.custom_webhook_template ?? null)
        : given.custom_webhook_template || null,
    enable_ssl_verification: given.enable_ssl_verification ?? before?.enable_ssl_verification ?? true,
    branch_filter_strategy: strategy,
    push_events_branch_filter: strategy === 'all_branches' ? null : filter,
    triggers: TRIGGERS.map(({ name }) => name).filter((name) => isTrigger(name) && on[name]),
  };
};

const storedQuery = (ctx: Context, group: GroupRow, id: number) =>
  ctx.db.selectFrom('webhooks').selectAll().where('id', '=', id).where('namespace_id', '=', group.id);

const findStored = async (ctx: Context, group: GroupRow, id: number): Promise<Selectable<Webhooks>> => {
  const row = await storedQuery(ctx, group, id).executeTakeFirst();
  if (!row) throw notFound('Hook');
  return row;
};

const lockHook = async (tx: Tx, group: GroupRow, id: number): Promise<Selectable<Webhooks>> => {
  const row = await storedQuery(tx, group, id).forNoKeyUpdate().executeTakeFirst();
  if (!row) throw notFound('Hook');
  return row;
};

const saveHook = (tx: Tx, id: number, changes: Updateable<Webhooks>) =>
  tx.db
    .updateTable('webhooks')
    .set({ ...changes, updated_at: sql`now()` })
    .where('id', '=', id)
    .execute();

const writeValues = async (tx: Tx, id: number, kind: ValueKind, values: readonly KeyValue[]): Promise<void> => {
  await tx.db.deleteFrom('webhook_values').where('webhook_id', '=', id).where('kind', '=', kind).execute();
  if (values.length === 0) return;
  await tx.db
    .insertInto('webhook_values')
    .values(
      values.map(({ key, value }) => ({ webhook_id: id, kind, key, value: encrypt(tx.services.secretKey, value) })),
    )
    .execute();
};

const scopeOf = (group: GroupRow, hook: { readonly id: number }) => ({
  subject: { type: 'Webhook', id: hook.id },
  namespace_ids: group.traversal_ids,
  ...OWNER_SCOPE,
});

type Described = Pick<HookRow, 'id' | 'namespace_id' | 'project_id' | 'name' | 'url'>;
const described = ({ id, namespace_id, project_id, name, url }: Described) => ({
  id,
  namespace_id,
  project_id,
  name,
  url,
});
