import { VERSION } from '#platform/version.ts';
import { buildOpenApi } from '#rest/openapi.ts';
import { routes } from './routes.ts';

/** The OpenAPI 3.1 document of all declared routes, made anew: who needs it keeps it. */
export const openApiDocument = (): object => buildOpenApi(routes, { version: VERSION });
