import type { CheckedSource } from '#domains/projects/importing.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, invalid } from '#platform/errors.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';
import { encrypt } from '#platform/secrets.ts';
import { beginImport } from './beginning.ts';
import { limitImportsByUrl } from './import-limit.ts';
import { GIT_TYPE } from './model.ts';
import { outboundPolicy } from './outbound.ts';

/**
 * Looks at the address that a new project's repository is to be cloned from; the clone itself is a job. Its credentials
 * are kept sealed until that has ended, and never shown.
 *
 * @throws DomainError `forbidden` where imports by URL are turned off, `invalid` for an address that cannot be,
 * `too_many_requests`
 */
export const checkImportUrl = async (ctx: Context, address: string): Promise<CheckedSource> => {
  if (!(await getSettings(ctx)).import_sources.includes('git'))
    throw forbidden('imports by URL are turned off on this instance');
  await limitAction(ctx, 'project_import_limit');
  try {
    const { url } = await ctx.services.http.check(address, await outboundPolicy(ctx));
    // A question mark in it would end the path that is asked, and be told to whoever sees the project.
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
