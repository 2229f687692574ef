import type { FastifyReply, FastifyRequest } from 'fastify';
import { html, layout } from './html.ts';
import { securityPolicy } from './visit.ts';

const WRONG = ['That did not work', 'The request could not be understood.'] as const;
const FAILED = ['Something went wrong', 'That is our fault, not yours. Try again in a moment.'] as const;
const TEXTS: Readonly<Record<number, readonly [string, string]>> = {
  401: ['Please sign in', 'You must sign in to see this page.'],
  403: ['Not allowed', 'You do not have permission to do that.'],
  404: ['Not found', 'This page does not exist, or you do not have permission to see it.'],
  422: ['That did not work', 'That is not possible.'],
  429: ['Too many attempts', 'Wait a while, then try again.'],
  503: ['Not available', 'The hub is temporarily unavailable. Try again in a moment.'],
};

/** Returns title and text of the page for an error status. */
export const errorTexts = (status: number): readonly [string, string] =>
  TEXTS[status] ?? (status < 500 ? WRONG : FAILED);

/** Sends an error as a page when there is no context, so that the page does not know who the user is. */
export const sendErrorPage = (
  reply: FastifyReply,
  status: number,
  headers: Readonly<Record<string, string>> = {},
): FastifyReply => {
  const [title, text] = errorTexts(status);
  guard(reply);
  for (const [name, value] of Object.entries(headers)) reply.header(name, value);
  const body = html`<p>${text}</p><p><a href="/">Go to the start page</a></p>`;
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .header('Content-Security-Policy', securityPolicy())
    .send(layout({ title, visit: null, body }));
};

/** Returns true for a browser that opens an address outside of the API. Browsers accept HTML, and API clients JSON. */
export const wantsPage = ({ method, headers, raw: { url = '' } }: FastifyRequest): boolean =>
  (method === 'GET' || method === 'HEAD') && !url.startsWith('/api/') && (headers.accept ?? '').includes('text/html');

/** Sets the headers of all pages. */
export const guard = (reply: FastifyReply): void => {
  reply.header('Cache-Control', 'no-store');
  reply.header('Referrer-Policy', 'no-referrer');
  reply.header('X-Content-Type-Options', 'nosniff');
  reply.header('X-Frame-Options', 'DENY');
};
