import { isDeepStrictEqual } from 'node:util';
import { type Selectable, sql, type Updateable } from 'kysely';
import type { ContainerOrInstance } from '#domains/planning/container.ts';
import { provenance } from '#domains/tokens/origins.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { Webhooks } from '#platform/db/tables.ts';
import { type FieldErrors, notFound, unprocessable } from '#platform/errors.ts';
import { encrypt } from '#platform/secrets.ts';
import { fillUrl, shownUrl } from './address.ts';
import { addressProblem, type HookAttributes, isFilter, type KeyValue, problemsOf } from './attributes.ts';
import { releaseHeld } from './delivery/health.ts';
import { webhookAlertStatusChanged, webhookUpdated } from './events.ts';
import { alertStatus, type ValueKind } from './model.ts';
import { hookScope, lockHookOwner } from './policy.ts';
import { getHook, type HookRow, isOwnedBy } from './queries.ts';
import { readable, unseal, valuesOf } from './secrets.ts';
import { alwaysFor, eachTrigger, TRIGGERS, triggersFor } from './triggers.ts';

export interface Change {
  /** Returns the new attributes, given the current headers and variables. */
  readonly give: (known: readonly (KeyValue & { readonly kind: ValueKind })[]) => HookAttributes;
  /** The only URL variable whose value is new. The others are repeated. Null if the caller gave all of them or none. */
  readonly anew: string | null;
}

interface Plan {
  readonly given: HookAttributes;
  readonly url: string;
  readonly variables: readonly KeyValue[];
  /** The hook gets a new receiver, so secrets for the old one must not be sent to it. */
  readonly moved: boolean;
  readonly isNew: boolean;
}

/** Works out the URL and variables after the change. A variable that changes the server counts as a new URL. */
const planChange = async (ctx: Context, before: Selectable<Webhooks>, { give, anew }: Change): Promise<Plan> => {
  const values = await valuesOf(ctx, before.id);
  const known = values.filter(({ kind }) => kind === 'url_variable');
  const given = give(values);
  refuse(problemsOf(given));
  // A client that sends the masked URL back does not mean to change the credentials.
  const sent = given.url === before.url ? undefined : given.url;
  const knownUrl = urlOf(ctx, before, sent);
  const url = sent ?? knownUrl;
  const variables = (given.url_variables ?? (url === knownUrl ? known : [])).map(({ key, value }) => ({ key, value }));
  const moved = url !== knownUrl || serverOf(url, variables) !== serverOf(knownUrl, known);
  return {
    given,
    url,
    variables: moved && anew !== null ? variables.filter(({ key }) => key === anew) : variables,
    moved,
    isNew: moved || given.url_variables !== undefined,
  };
};

/** Returns the whole URL. If its key was lost, a new one must be sent. @throws DomainError `unprocessable` */
const urlOf = (ctx: Context, { url, sealed_url }: Selectable<Webhooks>, sent: string | undefined): string => {
  if (sealed_url === null) return url;
  return sent === undefined ? unseal(ctx, sealed_url) : (readable(ctx, sealed_url) ?? url);
};

const serverOf = (url: string, variables: readonly KeyValue[]): string | null =>
  URL.parse(filledUrl(url, variables))?.origin ?? null;

const filledUrl = (url: string, variables: readonly KeyValue[]): string =>
  fillUrl(url, new Map(variables.map(({ key, value }) => [key, value])));

/**
 * Applies the change to the hook and enables it if it was disabled.
 *
 * @throws `not_found` (Hook), `forbidden`, `unprocessable`
 */
export const changeHook = async (
  ctx: Context,
  at: ContainerOrInstance,
  id: number,
  change: Change,
): Promise<HookRow> => {
  const seen = await planChange(ctx, await findStored(ctx, at, id), change);
  if (seen.isNew) refuse(await urlProblems(ctx, at, seen.url, seen.variables));
  return ctx.transaction(async (tx) => {
    const container = await lockHookOwner(tx, at);
    const before = await lockHook(tx, container, id);
    const { given, url, variables, moved, isNew } = await planChange(tx, before, change);
    // Names were resolved before the lock. Resolve them again only if someone changed the hook meanwhile.
    if (isNew && !isDeepStrictEqual([url, variables], [seen.url, seen.variables]))
      refuse(await urlProblems(tx, container, url, variables));
    const changes: Updateable<Webhooks> = { ...columnsOf(container.kind, given, before), ...urlColumns(tx, url) };
    // The application that set the new address, if any, is now the hook's origin.
    if (moved) changes.origin_id = (await provenance(tx)).origin_id;
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
    const hook = await getHook(tx, container, id);
    const changed = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name]));
    const scope = hookScope(container, id);
    tx.emit(webhookUpdated, { ...scope, payload: { ...hookPayload(hook), changed } });
    const [previous, current] = [alertStatus(before), alertStatus(hook)];
    if (previous !== current) {
      const { disabled_until, recent_failures } = hook;
      tx.emit(webhookAlertStatusChanged, {
        ...scope,
        payload: { ...hookPayload(hook), previous, current, disabled_until, recent_failures },
      });
    }
    return hook;
  });
};

export const refuse = (problems: FieldErrors): void => {
  if (Object.keys(problems).length > 0)
    throw unprocessable(
      Object.entries(problems)
        .map(([field, sentences]) => (field === 'base' ? sentences.join(', ') : `${field} ${sentences.join(', ')}`))
        .join(', '),
      problems,
    );
};

export const urlProblems = async (
  ctx: Context,
  { kind }: ContainerOrInstance,
  url: string,
  variables: readonly KeyValue[],
): Promise<FieldErrors> => {
  const isSystem = kind === 'instance';
  const problem = await addressProblem(ctx, { isSystem, url, filled: filledUrl(url, variables) });
  return problem === null ? {} : { url: [problem] };
};

/** Returns the URL to show and, if it carries a password, the sealed full URL. */
export const urlColumns = (ctx: Context, url: string) => {
  const shown = shownUrl(url);
  return { url: shown, sealed_url: shown === url ? null : seal(ctx, url) };
};

export const seal = (ctx: Context, secret: string | null | undefined): Buffer | null =>
  secret ? encrypt(ctx.services.secretKey, secret) : null;

/** Returns the plain columns. `before` is null for a new hook. */
export const columnsOf = (
  kind: ContainerOrInstance['kind'],
  given: HookAttributes,
  before: Selectable<Webhooks> | null,
) => {
  const strategy = given.branch_filter_strategy ?? before?.branch_filter_strategy ?? 'wildcard';
  const filter =
    given.push_events_branch_filter === undefined
      ? (before?.push_events_branch_filter ?? '')
      : (given.push_events_branch_filter ?? '');
  if (strategy !== 'all_branches' && !isFilter(strategy, filter)) refuse({ push_events_branch_filter: ['is invalid'] });
  const toggles = given.toggles ?? {};
  const known = triggersFor(kind);
  const foreign = TRIGGERS.filter(({ name }) => toggles[name] && !known.includes(name)).map(({ name }) => name);
  if (foreign.length > 0)
    refuse({
      events: [
        `${foreign.join(', ')} cannot be enabled for a hook of ${kind === 'instance' ? 'the instance' : `a ${kind}`}`,
      ],
    });
  const on = eachTrigger(
    (info) => toggles[info.name] ?? before?.triggers.includes(info.name) ?? isOnByDefault(kind, info),
  );
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
    triggers: [...known.filter((name) => on[name]), ...alwaysFor(kind)],
  };
};

const isOnByDefault = (kind: ContainerOrInstance['kind'], { name, byDefault }: (typeof TRIGGERS)[number]): boolean =>
  kind === 'instance' ? name === 'repository_update_events' : byDefault;

const storedQuery = (ctx: Context, container: ContainerOrInstance, id: number) => {
  return ctx.db.selectFrom('webhooks').selectAll().where('id', '=', id).where(isOwnedBy(container));
};

const findStored = async (ctx: Context, container: ContainerOrInstance, id: number): Promise<Selectable<Webhooks>> => {
  const row = await storedQuery(ctx, container, id).executeTakeFirst();
  if (!row) throw notFound('Hook');
  return row;
};

export const lockHook = async (tx: Tx, container: ContainerOrInstance, id: number): Promise<Selectable<Webhooks>> => {
  const row = await storedQuery(tx, container, id).forNoKeyUpdate().executeTakeFirst();
  if (!row) throw notFound('Hook');
  return row;
};

export const saveHook = (tx: Tx, id: number, changes: Updateable<Webhooks>) =>
  tx.db
    .updateTable('webhooks')
    .set({ ...changes, updated_at: sql`now()` })
    .where('id', '=', id)
    .execute();

export const writeValues = async (tx: Tx, id: number, kind: ValueKind, values: readonly KeyValue[]): Promise<void> => {
  await tx.db.deleteFrom('webhook_values').where('webhook_id', '=', id).where('kind', '=', kind).execute();
  if (values.length === 0) return;
  await tx.db
    .insertInto('webhook_values')
    .values(
      values.map(({ key, value }) => ({ webhook_id: id, kind, key, value: encrypt(tx.services.secretKey, value) })),
    )
    .execute();
};

type HookDetails = Pick<HookRow, 'id' | 'namespace_id' | 'project_id' | 'name' | 'url'>;

/** Returns the event payload of a hook. */
export const hookPayload = ({ id, namespace_id, project_id, name, url }: HookDetails) => ({
  id,
  namespace_id,
  project_id,
  name,
  url,
});
