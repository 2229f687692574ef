import { begin, lead } from '#domains/sign-in/pages.ts';
import { localPath } from '#pages/local-path.ts';
import { type Page, page } from '#pages/page.ts';
import { text } from '#rest/params.ts';
import { CALLBACK, REQUEST_SECONDS, samlMetadata } from './provider.ts';
import { beginSaml, endSaml, receiveSamlAnswer } from './sign-in.ts';

/** A sealed cookie with the id of the request that this browser started. */
const REQUEST = 'millrace_saml';
const FINISH = '/users/auth/saml/finish';
const MAX_ANSWER_BYTES = 256 * 1024;

export const pages: readonly Page[] = [
  page({
    method: 'GET',
    path: '/users/auth/saml/metadata',
    auth: 'optional',
    run: async (ctx) => ({
      status: 200,
      headers: { 'Content-Type': 'application/samlmetadata+xml' },
      body: await samlMetadata(ctx),
    }),
  }),
  page({
    method: 'GET',
    path: '/users/auth/saml',
    auth: 'optional',
    input: { return_to: text().optional() },
    run: async (ctx, { return_to }, visit) => {
      const { id, location } = await beginSaml(ctx, localPath(return_to));
      visit.seal(REQUEST, id, REQUEST_SECONDS);
      return visit.redirect(location);
    },
  }),
  page({
    method: 'POST',
    path: CALLBACK,
    auth: 'optional',
    // The provider's page posts here across sites, so no cookies of the hub arrive. The browser is only redirected.
    fromElsewhere: true,
    maxFormBytes: MAX_ANSWER_BYTES,
    input: { SAMLResponse: text() },
    run: async (ctx, { SAMLResponse }, visit) =>
      visit.redirect(`${FINISH}?code=${await receiveSamlAnswer(ctx, SAMLResponse)}`),
  }),
  page({
    method: 'GET',
    path: FINISH,
    auth: 'optional',
    input: { code: text({ max: 100 }) },
    run: async (ctx, { code }, visit) => {
      const id = visit.readSealed(REQUEST);
      const ended = id === null ? null : await endSaml(ctx, id, code);
      if (!ended) return begin(visit, undefined);
      visit.forget(REQUEST);
      return lead(visit, ended.step, ended.returnTo ?? undefined);
    },
  }),
];
