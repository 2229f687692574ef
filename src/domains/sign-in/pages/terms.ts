import { acceptTerms, getTerms, mustAcceptTerms, TERMS_PATH } from '#domains/users/terms.ts';
import { button, errorSummary, type FormErrors, form, hidden, html, layout, notice } from '#pages/html.ts';
import { localPath } from '#pages/local-path.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, notFound } from '#platform/errors.ts';
import { text } from '#rest/params.ts';
import { operatorText } from './operator-text.ts';
import { leadsAway, returnField } from './return-to.ts';

const return_to = text().optional();

export const termsPages: readonly Page[] = [
  page({
    method: 'GET',
    path: TERMS_PATH,
    auth: 'optional',
    input: { return_to },
    run: (ctx, { return_to: returnTo }, visit) => showTerms(ctx, visit, returnTo, {}),
  }),
  page({
    method: 'POST',
    path: TERMS_PATH,
    auth: 'required',
    input: { version: text({ max: 100 }).default(''), return_to },
    run: async (ctx, { version, return_to: returnTo }, visit) => {
      try {
        await acceptTerms(ctx, version);
      } catch (error) {
        if (!(error instanceof DomainError) || error.code !== 'conflict') throw error;
        return showTerms(ctx, visit, returnTo, { base: [error.message] });
      }
      return visit.redirect(localPath(returnTo) ?? '/');
    },
  }),
];

/** Everyone can read the terms. The form shows while the signed-in user has to accept them. */
const showTerms = async (
  ctx: Context,
  visit: Visit,
  returnTo: string | undefined,
  errors: FormErrors,
): Promise<PageResponse> => {
  const terms = await getTerms(ctx);
  if (terms === null) throw notFound();
  const asked = visit.session !== null && (await mustAcceptTerms(ctx));
  const body = html`!${errorSummary(errors)}
!${asked ? notice('warning', 'Accept these terms to continue.') : ''}
!${await operatorText(ctx, terms.text)}
!${
    asked
      ? html`!${form(visit, TERMS_PATH, html`!${hidden('version', terms.version)}!${returnField(returnTo)}!${button('Accept')}`)}
!${form(visit, '/users/sign_out', button('Decline and sign out', { kind: 'plain' }))}`
      : ''
  }`;
  const status = Object.keys(errors).length > 0 ? { status: 409 } : {};
  return visit.show(layout({ title: 'Terms of service', visit, body }), { ...status, leadsAway: leadsAway(returnTo) });
};
