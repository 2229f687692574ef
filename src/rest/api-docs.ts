import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance } from 'fastify';

const BASE = '/-/api-docs';
const ASSETS = new Set(['/swagger-ui.css', '/swagger-ui-bundle.js', '/favicon-32x32.png']);

/**
 * Serves the OpenAPI document at `/api/v4/openapi.json` and a page to browse it at `/-/api-docs`, entirely from local
 * files.
 */
export const mountApiDocs = async (
  fastify: FastifyInstance,
  { document }: { document: () => object },
): Promise<void> => {
  let text: string | null = null;
  fastify.route({
    method: ['GET', 'HEAD'],
    url: '/api/v4/openapi.json',
    handler: (_request, reply) => {
      text ??= JSON.stringify(document());
      return reply.type('application/json').header('Cache-Control', 'no-cache').send(text);
    },
  });
  fastify.route({
    method: ['GET', 'HEAD'],
    url: BASE,
    handler: (_request, reply) =>
      reply
        .type('text/html; charset=utf-8')
        .header('Content-Security-Policy', POLICY)
        .header('X-Content-Type-Options', 'nosniff')
        .header('Referrer-Policy', 'no-referrer')
        .send(PAGE),
  });
  fastify.route({
    method: ['GET', 'HEAD'],
    url: `${BASE}/init.js`,
    handler: (_request, reply) => reply.type('text/javascript; charset=utf-8').send(SCRIPT),
  });
  await fastify.register(fastifyStatic, {
    root: dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json')),
    prefix: `${BASE}/assets/`,
    index: false,
    decorateReply: false,
    maxAge: '1d',
    allowedPath: (path) => ASSETS.has(path),
  });
};

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Millrace API</title>
    <link rel="icon" href="${BASE}/assets/favicon-32x32.png">
    <link rel="stylesheet" href="${BASE}/assets/swagger-ui.css">
  </head>
  <body>
    <div id="api"></div>
    <script src="${BASE}/assets/swagger-ui-bundle.js"></script>
    <script src="${BASE}/init.js"></script>
  </body>
</html>
`;

const SCRIPT = `SwaggerUIBundle({ url: '/api/v4/openapi.json', dom_id: '#api', deepLinking: true, docExpansion: 'none', filter: true, validatorUrl: null });
`;
