import { button, form, hidden, html, layout, notice } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { oneOf, text } from '#rest/params.ts';
import { type AuthorizationRequest, approve, deny, readAuthorizationRequest } from '../authorization.ts';
import { requestSummary } from './request-summary.ts';

const PATH = '/oauth/authorize';

export const consentPages: readonly Page[] = [
  page({
    method: 'GET',
    path: PATH,
    auth: 'optional',
    run: (ctx, _input, visit) =>
      answer(ctx, visit, queryOf(visit), async (request) =>
        request.consentNeeded ? showConsent(ctx, visit, request) : visit.redirect(await approve(ctx, request)),
      ),
  }),
  page({
    method: 'POST',
    path: PATH,
    auth: 'optional',
    input: { query: text({ max: 16_000 }), decision: oneOf(['approve', 'deny']) },
    run: (ctx, { query, decision }, visit) =>
      answer(ctx, visit, query, async (request) =>
        visit.redirect(decision === 'approve' ? await approve(ctx, request) : deny(ctx, request)),
      ),
  }),
];

const queryOf = ({ url }: Visit): string => {
  const mark = url.indexOf('?');
  return mark < 0 ? '' : url.slice(mark + 1);
};

const answer = async (
  ctx: Context,
  visit: Visit,
  query: string,
  decide: (request: AuthorizationRequest) => Promise<PageResponse>,
): Promise<PageResponse> => {
  const read = await readAuthorizationRequest(ctx, query);
  if ('ok' in read) return decide(read.ok);
  if ('redirect' in read) return visit.redirect(read.redirect);
  if ('signIn' in read) {
    const again = read.signIn.again ? '&again=1' : '';
    const returnTo = encodeURIComponent(`${PATH}?${read.signIn.query}`);
    return visit.redirect(`/users/sign_in?return_to=${returnTo}${again}`);
  }
  const { code, message } = read.show;
  const body = html`!${notice('error', message)}
<p>The application that sent you here sent an invalid request (<code>${code}</code>), so you are not redirected back to it. No access was granted.</p>`;
  return visit.show(layout({ title: 'This request is invalid', visit, body }), { status: 400 });
};

const showConsent = async (ctx: Context, visit: Visit, request: AuthorizationRequest): Promise<PageResponse> => {
  const { application, scopes, redirectUri, query } = request;
  const who = await requestSummary(ctx, {
    visit,
    application,
    scopes,
    details: [['Sends you to', targetOf(redirectUri)]],
  });
  const buttons = [
    button('Authorize', { name: 'decision', value: 'approve' }),
    button('Deny', { kind: 'plain', name: 'decision', value: 'deny' }),
  ].join('\n');
  const body = html`!${who}
!${form(visit, PATH, html`!${hidden('query', query)}<div class="actions">!${buttons}</div>`)}
<p class="hint">You can revoke access at any time under <a href="/-/user_settings/applications">Applications</a>.</p>`;
  return visit.show(layout({ title: `Authorize ${application.name}?`, visit, body }), {
    leadsAway: true,
  });
};

/** Describes the redirect target to the user, as HTML. */
const targetOf = (redirectUri: string): string => {
  const url = new URL(redirectUri);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return html`An application on your device (${url.protocol})`;
  return LOOPBACK.test(url.hostname) ? html`An application on your device (${url.host})` : html`${url.host}`;
};

const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\])$/;
