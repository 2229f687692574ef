import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { notAdministrator } from '#platform/caller/administrators.ts';
import { readCookie, sessionCookieName } from '#platform/caller/cookies.ts';
import { isCsrfToken } from '#platform/caller/csrf.ts';
import type { Context, Services } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import type { Credential } from '#rest/auth.ts';
import { answerError } from '#rest/errors.ts';
import { noParameters, type Parameters, parseForm } from '#rest/nested.ts';
import { pathReader, routerPaths } from '#rest/wildcards.ts';
import { icon, stylesheet } from './assets.ts';
import { errorTexts, guard, sendErrorPage } from './error-page.ts';
import { html, layout } from './html.ts';
import type { Page, PageResponse } from './page.ts';
import { Visit } from './visit.ts';

interface Dependencies {
  readonly services: Services;
  contextOf(request: FastifyRequest, credential: Credential): Promise<Context>;
}

const MAX_FORM_BYTES = 64 * 1024;
const YEAR_SECONDS = 31_536_000;

/**
 * Returns the page to redirect a signed-in user to instead of this page, or null to show this page. `path` is the
 * declared one. `returnTo` is the address to come back to; a POST has none.
 */
type Detour = (
  ctx: Context,
  page: { readonly path: string; readonly returnTo: string | undefined },
) => Promise<string | null>;

/** Serves the pages and their static files. The session cookie is the only credential that pages accept. */
export const mountPages =
  (pages: readonly Page[], detourFor: Detour) =>
  (fastify: FastifyInstance, dependencies: Dependencies): void => {
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, text, done) =>
      done(null, String(text)),
    );
    fastify.setErrorHandler((error, request, reply) => showError(dependencies, error, request, reply));
    for (const [page, url] of pages.flatMap((page) => routerPaths(page.path).map((url) => [page, url] as const))) {
      const readPath = pathReader(page.path);
      fastify.route<{ Params: Record<string, string>; Body: string | undefined }>({
        method: page.method === 'GET' ? ['GET', 'HEAD'] : 'POST',
        url,
        bodyLimit: page.maxFormBytes ?? MAX_FORM_BYTES,
        handler: async (request, reply) => {
          const ctx = await openContext(dependencies, request);
          const visit = new Visit(ctx, { url: request.raw.url ?? '/', cookie: request.headers.cookie });
          const answer = await answerOrExplain(request, ctx, visit, async () => {
            const sent = readParameters(request.raw.url ?? '', request.body);
            if (page.method === 'POST' && !page.fromElsewhere) requireToken(ctx, visit, sent);
            if (page.auth !== 'optional' && visit.session === null) return visit.redirect(signInPath(page, visit));
            const returnTo = page.method === 'GET' ? visit.url : undefined;
            const detour = visit.session === null ? null : await detourFor(ctx, { path: page.path, returnTo });
            if (detour !== null) return visit.redirect(detour);
            if (page.auth === 'administrator' && !ctx.actor.isAdmin) throw notAdministrator(ctx.actor);
            Object.assign(sent, readPath(request.params));
            return page.handle(ctx, sent, visit);
          });
          return send(reply, visit, answer);
        },
      });
    }
    for (const { path, type, content } of [stylesheet, icon, { ...icon, path: '/favicon.ico' }]) {
      fastify.route({
        method: ['GET', 'HEAD'],
        url: path,
        handler: (_request, reply) =>
          reply
            .type(type)
            .header('Cache-Control', `public, max-age=${YEAR_SECONDS}, immutable`)
            .header('X-Content-Type-Options', 'nosniff')
            .send(content),
      });
    }
  };

/** Treats an ended session or closed account as anonymous, so that the user can open the sign-in page. */
const openContext = async ({ services, contextOf }: Dependencies, request: FastifyRequest): Promise<Context> => {
  const value = readCookie(request.headers, sessionCookieName(services.urls));
  if (value !== null) {
    try {
      return await contextOf(request, { kind: 'session', value });
    } catch (error) {
      if (!(error instanceof DomainError) || !REFUSALS.has(error.code)) throw error;
    }
  }
  return contextOf(request, { kind: 'none' });
};

const REFUSALS: ReadonlySet<string> = new Set(['unauthenticated', 'invalid_token', 'forbidden']);

const signInPath = (page: Page, visit: Visit): string =>
  page.method === 'GET' ? `/users/sign_in?return_to=${encodeURIComponent(visit.url)}` : '/users/sign_in';

const readParameters = (url: string, body: string | undefined): Parameters => {
  const mark = url.indexOf('?');
  const sent = mark < 0 ? noParameters() : parseForm(url.slice(mark + 1));
  return body === undefined ? sent : Object.assign(sent, parseForm(body));
};

const requireToken = ({ services }: Context, visit: Visit, sent: Parameters): void => {
  const { sessionValue } = visit;
  if (sessionValue !== null && isCsrfToken(services.secretKey, sessionValue, sent.authenticity_token)) return;
  throw new DomainError('unprocessable', 'This form is out of date. Go back, reload the page and try again.');
};

const answerOrExplain = async (
  request: FastifyRequest,
  ctx: Context,
  visit: Visit,
  run: () => Promise<PageResponse> | PageResponse,
): Promise<PageResponse> => {
  try {
    return await run();
  } catch (error) {
    const { status, headers, unexpected } = answerError(error);
    if (unexpected) ctx.log.error({ err: error, request_id: request.id }, 'a page failed');
    return explain(visit, status, headers, error);
  }
};

const explain = (
  visit: Visit,
  status: number,
  headers: Readonly<Record<string, string>>,
  error: unknown,
): PageResponse => {
  const [title, otherwise] = errorTexts(status);
  const said = error instanceof DomainError ? error.message.replace(/^\d{3} [A-Z][\w ]*?(?: - |$)/, '') : '';
  const body = html`<p>${said === '' ? otherwise : said}</p><p><a href="/">Go to the start page</a></p>`;
  return visit.show(layout({ title, visit, body }), { status, headers });
};

/** Shows an error from before a context exists, such as a lost database connection or a form that is too large. */
const showError = (
  { services }: Dependencies,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply => {
  const { status, headers, unexpected } = answerError(error);
  if (unexpected) services.log.error({ err: error, request_id: request.id }, 'a page failed');
  return sendErrorPage(reply, status, headers);
};

const send = (reply: FastifyReply, visit: Visit, { status, headers, body }: PageResponse): FastifyReply => {
  guard(reply);
  for (const [name, value] of Object.entries(headers)) reply.header(name, value);
  if (visit.setCookies.length > 0) reply.header('Set-Cookie', [...visit.setCookies]);
  return reply.code(status).send(body);
};
