import { setTimeout as sleep } from 'node:timers/promises';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';
import { decrypt } from '#platform/secrets.ts';
import { ARCHIVE_TYPE, type ExportRow, TransferError } from '../model.ts';
import { outboundPolicy } from '../outbound.ts';

/** @throws DomainError `invalid` if uploads may not go to the address */
export const checkUploadUrl = async (ctx: Context, url: string): Promise<void> => {
  try {
    await ctx.services.http.check(url, await outboundPolicy(ctx));
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw invalid({ 'upload[url]': [error.message] });
  }
};

const UPLOAD_TIMEOUT_MS = 60 * 60_000;
const UPLOAD_TRIES = 3;

/** Uploads the archive to the requested address. */
export const upload = async (ctx: Context, row: ExportRow, key: string, size: number): Promise<void> => {
  if (!row.upload_url) return;
  const { storage, http, secretKey } = ctx.services;
  if ((await getSettings(ctx)).silent_mode_enabled)
    throw new TransferError('The upload was not sent because silent mode is on.');
  const url = decrypt(secretKey, row.upload_url);
  for (let attempt = 1; ; attempt++) {
    const { stream } = await storage.read(key);
    try {
      const { status } = await http.request({
        url,
        method: row.upload_method === 'POST' ? 'POST' : 'PUT',
        headers: { 'content-type': ARCHIVE_TYPE },
        body: stream,
        contentLength: size,
        policy: await outboundPolicy(ctx),
        timeoutMs: UPLOAD_TIMEOUT_MS,
        maxResponseBytes: 8 * 1024,
        signal: ctx.signal,
      });
      if (status >= 200 && status < 300) return;
      if (status < 500 || attempt >= UPLOAD_TRIES)
        throw new TransferError(`The upload failed: the server answered ${status}.`);
    } catch (error) {
      if (!(error instanceof OutboundError) || ctx.signal.aborted) throw error;
      if (error.kind === 'blocked' || attempt >= UPLOAD_TRIES)
        throw new TransferError(`The upload failed: ${error.message}.`);
    } finally {
      stream.destroy();
    }
    await sleep(1_000 * 2 ** attempt, undefined, { signal: ctx.signal });
  }
};
