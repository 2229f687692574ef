import { setTimeout as sleep } from 'node:timers/promises';
import { outboundPolicy } from '#domains/settings/outbound.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';
import { decrypt } from '#platform/secrets.ts';
import { ARCHIVE_TYPE, type ExportRow } from '../model.ts';

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
const UPLOAD_TRIES = 5;
const FIRST_DELAY_MS = 200;

/** Uploads the archive to the requested address, if there is one. Returns null, or why it could not be uploaded. */
export const upload = async (ctx: Context, row: ExportRow, key: string, size: number): Promise<string | null> => {
  if (!row.upload_url) return null;
  const { secretKey } = ctx.services;
  if ((await getSettings(ctx)).silent_mode_enabled) return 'The upload was not sent because silent mode is on.';
  const url = decrypt(secretKey, row.upload_url);
  for (let attempt = 1; ; attempt++) {
    const problem = await send(ctx, { url, method: row.upload_method === 'POST' ? 'POST' : 'PUT', key, size });
    if (problem === null) return null;
    if (!problem.isTemporary || attempt >= UPLOAD_TRIES) return `The upload failed: ${problem.text}.`;
    ctx.log.info({ export_id: row.id, attempt, reason: problem.text }, 'an upload failed; retrying');
    await sleep(FIRST_DELAY_MS * 4 ** (attempt - 1), undefined, { signal: ctx.signal });
  }
};

interface Upload {
  readonly url: string;
  readonly method: 'PUT' | 'POST';
  readonly key: string;
  readonly size: number;
}

const send = async (
  ctx: Context,
  { url, method, key, size }: Upload,
): Promise<{ readonly text: string; readonly isTemporary: boolean } | null> => {
  const { storage, http } = ctx.services;
  const { stream } = await storage.read(key);
  try {
    const { status } = await http.request({
      url,
      method,
      headers: { 'content-type': ARCHIVE_TYPE },
      body: stream,
      contentLength: size,
      policy: await outboundPolicy(ctx),
      timeoutMs: UPLOAD_TIMEOUT_MS,
      maxResponseBytes: 8 * 1024,
      signal: ctx.signal,
    });
    if (status >= 200 && status < 300) return null;
    return { text: `the server answered ${status}`, isTemporary: status >= 500 || status === 429 };
  } catch (error) {
    if (!(error instanceof OutboundError) || ctx.signal.aborted) throw error;
    return { text: error.message.replace(/\.$/, ''), isTemporary: error.kind !== 'blocked' };
  } finally {
    stream.destroy();
  }
};
