import { endpoints as oauth } from '#domains/oauth/rest/openapi.ts';
import { VERSION } from '#platform/version.ts';
import { buildOpenApi } from '#rest/openapi.ts';
import { routes } from './routes.ts';

/** Builds the OpenAPI 3.1 document of all routes and the OAuth endpoints. The caller should cache it. */
export const openApiDocument = (): object => buildOpenApi([...routes, ...oauth], { version: VERSION });
