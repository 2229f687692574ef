import { VERSION } from '#platform/version.ts';
import { buildOpenApi } from '#rest/openapi.ts';
import { routes } from './routes.ts';

/** The OpenAPI 3.1 document of all declared routes. */
export const openApiDocument = buildOpenApi(routes, { version: VERSION });
