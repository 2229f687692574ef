import { endpoints as errorIngest } from '#domains/error-ingest/rest/openapi.ts';
import { endpoints as oauth } from '#domains/oauth/rest/openapi.ts';
import { VERSION } from '#platform/process/version.ts';
import { buildOpenApi } from '#rest/openapi.ts';
import type { ApiVersion } from '#rest/route.ts';
import { v5Tables } from '#rest/v5-table.ts';
import { routes } from './routes.ts';

const declared = [...routes, ...oauth, ...errorIngest];

/**
 * Builds the OpenAPI 3.1 document of all routes in one version of the API, and of the endpoints of OAuth and of error
 * tracking. The caller should cache it.
 */
export const openApiDocument = (apiVersion: ApiVersion): object =>
  buildOpenApi(declared, { version: VERSION, apiVersion });

/** Returns what version 5 removes and changes, for docs/version-5.md. */
export const v5Removals = (): string => v5Tables(declared);
