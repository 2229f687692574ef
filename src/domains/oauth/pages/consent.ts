import { button, form, hidden, html, layout, notice } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { oneOf, text } from '#rest/params.ts';
import { type AuthorizationRequest, approve, deny, readAuthorizationRequest } from '../authorization.ts';
import { asking } from './asking.ts';

const PATH = '/oauth/authorize';
/** The consent page for users who return from the sign-in page. */
const RESUME_PATH = `${PATH}/resume`;

type Leave = (location: string) => PageResponse;

export const consentPages: readonly Page[] = [
  page({
    method: 'GET',
    path: PATH,
    auth: 'optional',
    run: (ctx, _input, visit) => ask(ctx, visit, queryOf(visit), (location) => visit.redirect(location)),
  }),
  page({
    method: 'GET',
    path: RESUME_PATH,
    auth: 'optional',
    run: (ctx, _input, visit) => ask(ctx, visit, queryOf(visit), (location) => leaveByPage(visit, location)),
  }),
  page({
    method: 'POST',
    path: PATH,
    auth: 'optional',
    input: { query: text({ max: 16_000 }), decision: oneOf(['approve', 'deny']) },
    run: (ctx, { query, decision }, visit) =>
      answer(ctx, visit, query, {
        leave: (location) => visit.redirect(location),
        decide: async (request) =>
          visit.redirect(decision === 'approve' ? await approve(ctx, request) : deny(ctx, request)),
      }),
  }),
];

const queryOf = ({ url }: Visit): string => {
  const mark = url.indexOf('?');
  return mark < 0 ? '' : url.slice(mark + 1);
};

const ask = (ctx: Context, visit: Visit, query: string, leave: Leave): Promise<PageResponse> =>
  answer(ctx, visit, query, {
    leave,
    decide: async (request) =>
      request.consentNeeded ? showConsent(ctx, visit, request) : leave(await approve(ctx, request)),
  });

interface Deciding {
  readonly leave: Leave;
  readonly decide: (request: AuthorizationRequest) => Promise<PageResponse>;
}

const answer = async (
  ctx: Context,
  visit: Visit,
  query: string,
  { leave, decide }: Deciding,
): Promise<PageResponse> => {
  const read = await readAuthorizationRequest(ctx, query);
  if ('ok' in read) return decide(read.ok);
  if ('redirect' in read) return leave(read.redirect);
  if ('signIn' in read) {
    const again = read.signIn.again ? '&again=1' : '';
    const returnTo = encodeURIComponent(`${RESUME_PATH}?${read.signIn.query}`);
    return visit.redirect(`/users/sign_in?return_to=${returnTo}${again}`);
  }
  const { code, message } = read.show;
  const body = html`!${notice('error', message)}
<p>The application that sent you here sent an invalid request (<code>${code}</code>), so you are not redirected back to it. No access was granted.</p>`;
  return visit.show(layout({ title: 'This request is invalid', visit, body }), { status: 400 });
};

const showConsent = async (ctx: Context, visit: Visit, request: AuthorizationRequest): Promise<PageResponse> => {
  const { application, scopes, redirectUri, query } = request;
  const who = await asking(ctx, { visit, application, scopes, details: [['Sends you to', targetOf(redirectUri)]] });
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

/**
 * Browsers apply `form-action` to every redirect that follows a form. Here the form was the sign-in form, whose policy
 * does not allow the application. A page in between ends that chain.
 */
const leaveByPage = (visit: Visit, location: string): PageResponse => {
  const body = html`<p>You are being sent back to the application.</p>
<p><a href="${location}">Continue</a></p>`;
  return visit.show(layout({ title: 'Signed in', visit, body }), { headers: { Refresh: `0; url=${location}` } });
};

/** Describes the redirect target to the user, as HTML. */
const targetOf = (redirectUri: string): string => {
  const url = new URL(redirectUri);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return html`An application on your device (${url.protocol})`;
  return LOOPBACK.test(url.hostname) ? html`An application on your device (${url.host})` : html`${url.host}`;
};

const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\])$/;
