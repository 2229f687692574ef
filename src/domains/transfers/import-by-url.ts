import type { CheckedSource } from '#domains/projects/importing.ts';
import { outboundPolicy } from '#domains/settings/outbound.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, invalid } from '#platform/errors.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';
import { encrypt } from '#platform/secrets.ts';
import { beginImport } from './begin-import.ts';
import { limitImportsByUrl } from './import-limit.ts';
import { GIT_TYPE } from './model.ts';

/**
 * Checks the address to clone a new project's repository from. A job does the clone. The credentials stay encrypted
 * until then and are never shown.
 *
 * @throws DomainError `forbidden` while imports by URL are turned off, `invalid` for a bad address, `too_many_requests`
 */
export const checkImportUrl = async (ctx: Context, address: string): Promise<CheckedSource> => {
  if (!(await getSettings(ctx)).import_sources.includes('git'))
    throw forbidden('imports by URL are turned off on this instance');
  await limitAction(ctx, 'project_import_limit');
  try {
    const { url } = await ctx.services.http.check(address, await outboundPolicy(ctx));
    // A query would cut off the path that git appends, and everyone who sees the project would see it.
    if (url.search !== '') throw invalid({ import_url: ['must have no query'] });
    return {
      import_type: GIT_TYPE,
      shown: url.href,
      begin: async (tx, project) => {
        await limitImportsByUrl(tx);
        await beginImport(tx, project, { import_type: GIT_TYPE, source_url: encrypt(tx.services.secretKey, address) });
      },
    };
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw invalid({ import_url: [error.message] });
  }
};
