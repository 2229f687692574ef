import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { FastifyInstance } from 'fastify';
import type { ApiVersion } from './route.ts';

const BASE = '/-/api-docs';
/** The files of swagger-ui-dist that the page needs, with their content types. */
const ASSETS = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
};

/**
 * Serves the OpenAPI document at `/api/v4/openapi.json`, that of the preview at `/api/v5/openapi.json`, and a page to
 * browse both at `/-/api-docs`, entirely from local files.
 */
export const mountApiDocs = async (
  fastify: FastifyInstance,
  { document }: { document: (version: ApiVersion) => object },
): Promise<void> => {
  const texts = new Map<ApiVersion, string>();
  fastify.route({
    method: ['GET', 'HEAD'],
    url: '/api/v4/openapi.json',
    handler: ({ apiVersion }, reply) => {
      const text = texts.get(apiVersion) ?? JSON.stringify(document(apiVersion));
      texts.set(apiVersion, text);
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
  for (const [name, type] of Object.entries(ASSETS)) {
    fastify.route({
      method: ['GET', 'HEAD'],
      url: `${BASE}/assets/${name}`,
      handler: async (_request, reply) => {
        const path = createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`);
        return reply
          .type(type)
          .header('Cache-Control', 'public, max-age=86400')
          .header('X-Content-Type-Options', 'nosniff')
          .send(await readFile(path));
      },
    });
  }
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

const SCRIPT = `SwaggerUIBundle({ urls: [{ url: '/api/v4/openapi.json', name: 'Version 4' }, { url: '/api/v5/openapi.json', name: 'Version 5 (preview)' }], dom_id: '#api', deepLinking: true, docExpansion: 'none', filter: true, validatorUrl: null });
`;
