import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

/** A report that cannot be read. The message says why. */
export class ReportProblem extends Error {
  override readonly name = 'ReportProblem';
}

/**
 * Unpacks a report. Runners send each of its files as a member of its own; they follow one another here.
 *
 * @throws ReportProblem if it is damaged, or more than `maxBytes`
 */
export async function* unpackedReport(stored: Readable, maxBytes: number): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  pipeline(stored, gunzip, () => undefined);
  let size = 0;
  try {
    for await (const part of gunzip) {
      const chunk: Buffer = part;
      size += chunk.length;
      if (size > maxBytes) throw new ReportProblem(`it is larger than ${maxBytes} bytes`);
      yield chunk;
    }
  } catch (error) {
    const isOfZlib =
      error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('Z_');
    throw isOfZlib ? new ReportProblem('it is not in gzip format') : error;
  } finally {
    gunzip.destroy();
    stored.destroy();
  }
}
