import { endpoints as oauth } from '#domains/oauth/rest/openapi.ts';
import { VERSION } from '#platform/version.ts';
import { buildOpenApi } from '#rest/openapi.ts';
import { routes } from './routes.ts';

/** The OpenAPI 3.1 document of all routes and of OAuth's endpoints, made anew: whoever needs it keeps it. */
export const openApiDocument = (): object => buildOpenApi([...routes, ...oauth], { version: VERSION });
