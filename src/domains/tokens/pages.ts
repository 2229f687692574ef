import { getSettings } from '#domains/settings/queries.ts';
import { requireUser } from '#domains/users/policy.ts';
import { choices } from '#pages/choices.ts';
import { formErrorsOf } from '#pages/form-errors.ts';
import { button, errorSummary, type FormErrors, field, form, html, layout, table, time } from '#pages/html.ts';
import { type Page, page } from '#pages/page.ts';
import { pager } from '#pages/pager.ts';
import { secret } from '#pages/secret.ts';
import type { Visit } from '#pages/visit.ts';
import { TOKEN_SCOPES } from '#platform/caller/token-scopes.ts';
import { today } from '#platform/clock.ts';
import type { Context } from '#platform/context.ts';
import { DEFAULT_PER_PAGE, offsetPage, readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { date, integer, list, text } from '#rest/params.ts';
import { createToken, revokeToken, rotateToken } from './commands.ts';
import { ADMINISTRATOR_SCOPES, daysAfter } from './model.ts';
import type { CredentialOrigin } from './origins.ts';
import { listTokens, type TokenRow } from './queries.ts';
import { scopeInWords } from './scopes.ts';

const PATH = '/-/user_settings/personal_access_tokens';
const DAYS_BY_DEFAULT = 30;
const LABELS = { name: 'Name', description: 'Description', expires_at: 'Expires on', scopes: 'Scopes' };

interface Draft {
  readonly name: string;
  readonly description: string;
  readonly expires_at?: string | null | undefined;
  readonly scopes: readonly string[];
}

export const pages: readonly Page[] = [
  page({
    method: 'GET',
    path: PATH,
    auth: 'required',
    input: { page: integer({ min: 1, max: 10_000 }).default(1) },
    run: (ctx, input, visit) => show(ctx, visit, input),
  }),
  page({
    method: 'POST',
    path: PATH,
    auth: 'required',
    input: {
      name: text().default(''),
      description: text().default(''),
      expires_at: date().nullish(),
      scopes: list(text()).default([]),
    },
    run: async (ctx, draft, visit) => {
      try {
        const created = await createToken(ctx, requireUser(ctx), {
          ...draft,
          description: draft.description || null,
          expires_at: draft.expires_at ?? undefined,
        });
        return await show(ctx, visit, { page: 1, created });
      } catch (error) {
        return await show(ctx, visit, { page: 1, draft, errors: formErrorsOf(error) });
      }
    },
  }),
  page({
    method: 'POST',
    path: `${PATH}/:id/rotate`,
    auth: 'required',
    input: { id: integer() },
    run: async (ctx, { id }, visit) => show(ctx, visit, { page: 1, created: await rotateToken(ctx, id, {}) }),
  }),
  page({
    method: 'POST',
    path: `${PATH}/:id/revoke`,
    auth: 'required',
    input: { id: integer() },
    run: async (ctx, { id }, visit) => {
      const { name } = await revokeToken(ctx, id);
      return visit.redirect(PATH, { notice: `${name} was revoked.` });
    },
  }),
];

interface Shown {
  readonly page: number;
  readonly created?: { readonly name: string; readonly token: string };
  readonly draft?: Draft;
  readonly errors?: FormErrors;
}

const show = async (ctx: Context, visit: Visit, { page: number, created, draft, errors = {} }: Shown) => {
  const active = listTokens(ctx, { user_id: requireUser(ctx), state: 'active' });
  const { items, ...rest } = await readPage(active, offsetPage(number, DEFAULT_PER_PAGE));
  const body = html`!${created ? secret({ id: 'token', label: `The new token, ${created.name}`, value: created.token }) : ''}
!${errorSummary(errors, LABELS)}
<p>A personal access token acts for you where a password cannot: with the API, and with Git over HTTPS. Anyone who has the token can use its scopes, so keep it secret.</p>
<section aria-labelledby="active">
<h2 id="active">Active tokens</h2>
!${items.length === 0 ? html`<p class="empty">You have none.</p>` : tokenTable(visit, items)}
!${pager(PATH, number, rest)}
<p class="hint">Rotating a token replaces it with a new one that has the same name and scopes and lasts a week.</p>
</section>
<section aria-labelledby="new">
<h2 id="new">New token</h2>
!${tokenForm(ctx, visit, draft ?? (await newDraft(ctx)), errors)}
</section>`;
  const status = draft ? 422 : 200;
  return visit.show(layout({ title: 'Personal access tokens', visit, body, wide: true }), { status });
};

const newDraft = async (ctx: Context): Promise<Draft> => {
  const { max_personal_access_token_lifetime: most } = await getSettings(ctx);
  return {
    name: '',
    description: '',
    expires_at: daysAfter(today(ctx.clock), Math.min(DAYS_BY_DEFAULT, most)),
    scopes: [],
  };
};

const tokenForm = (ctx: Context, visit: Visit, draft: Draft, errors: FormErrors): string =>
  form(
    visit,
    PATH,
    [
      field({
        name: 'name',
        label: LABELS.name,
        value: draft.name,
        hint: 'The purpose of the token, or where it is stored.',
        errors,
        required: true,
        maxlength: 255,
      }),
      field({ name: 'description', label: LABELS.description, value: draft.description, errors, maxlength: 255 }),
      field({
        name: 'expires_at',
        label: LABELS.expires_at,
        type: 'date',
        value: draft.expires_at ?? '',
        hint: 'The token works to the end of this day (UTC). If left empty, it lasts as long as the hub allows.',
        errors,
      }),
      choices({
        name: 'scopes',
        legend: LABELS.scopes,
        hint: 'Select only the scopes that it needs.',
        items: TOKEN_SCOPES.filter((scope) => ctx.actor.isAdmin || !ADMINISTRATOR_SCOPES.has(scope)).map((scope) => ({
          value: scope,
          label: scope,
          hint: scopeInWords(scope),
        })),
        chosen: draft.scopes,
        errors,
      }),
      button('Create token'),
    ].join('\n'),
  );

/** Describes a credential's origin. */
export const madeThrough = ({ application_name }: CredentialOrigin): string =>
  application_name === null
    ? 'Created by a program that had a password'
    : `Created by the application ${application_name}`;

const tokenTable = (visit: Visit, tokens: readonly TokenRow[]): string =>
  table(
    'Active personal access tokens',
    ['Name', 'Scopes', 'Created', 'Last used', 'Expires', 'Actions'],
    tokens.map((token) => [
      html`${token.name}!${token.description ? html`<p class="hint">${token.description}</p>` : ''}!${token.origin ? html`<p class="hint">${madeThrough(token.origin)}</p>` : ''}`,
      html`${token.scopes.join(', ')}`,
      time(isoTime(token.created_at)),
      token.last_used_at === null ? 'never' : time(isoTime(token.last_used_at)),
      token.expires_at === null ? 'never' : html`<time datetime="${token.expires_at}">${token.expires_at}</time>`,
      html`<div class="actions">
!${form(visit, `${PATH}/${token.id}/rotate`, button('Rotate', { kind: 'plain', label: `Rotate ${token.name}` }))}
!${form(visit, `${PATH}/${token.id}/revoke`, button('Revoke', { kind: 'danger', label: `Revoke ${token.name}` }))}
</div>`,
    ]),
  );
