import type { RefRefusal, RefUpdate, Served } from '../http.ts';
import { isOutOfMemory } from '../process/memory-limit.ts';
import { FLUSH, PacketSplitter, packet, sideBand } from './pkt-line.ts';
import type { ReceiveCommands } from './receive-commands.ts';

/** Builds the report for a push that is refused as a whole. It says that nothing moved, and why. */
export const refusalReport = (
  { updates, capabilities }: ReceiveCommands,
  refusals: readonly RefRefusal[],
  messages: readonly string[],
): Buffer => {
  const reasons = new Map(refusals.map(({ ref, reason }) => [ref, oneLine(reason)]));
  const report = capabilities.has('report-status') || capabilities.has('report-status-v2');
  const status = report
    ? Buffer.concat([
        packet('unpack ok\n'),
        ...updates.map(({ ref }) => packet(`ng ${ref} ${reasons.get(ref) ?? 'refused with the rest of the push'}\n`)),
        FLUSH,
      ])
    : Buffer.alloc(0);
  if (!capabilities.has('side-band-64k')) return status;
  return Buffer.concat([sideBand(2, Buffer.from(terminalLines(refusals, messages))), sideBand(1, status), FLUSH]);
};

/** Returns the lines that git shows as `remote: ...`. */
export const terminalLines = (refusals: readonly RefRefusal[], messages: readonly string[]): string =>
  [...messages.map(oneLine), ...refusals.map(({ ref, reason }) => `${ref}: ${oneLine(reason)}`)]
    .map((line) => `${line}\n`)
    .join('');

/** Passes the response on, then waits for messages and adds them where git expects those of hooks: at the end. */
export async function* withMessages(
  { stream, hasSideBand }: Pick<Served, 'stream' | 'hasSideBand'>,
  coming: Promise<readonly string[]>,
): AsyncGenerator<Buffer> {
  let end: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    if (!Buffer.isBuffer(chunk)) continue;
    const held = Buffer.concat([end, chunk]);
    const cut = Math.max(held.length - FLUSH.length, 0);
    end = held.subarray(cut);
    if (cut > 0) yield held.subarray(0, cut);
  }
  const messages = await coming;
  if (hasSideBand && messages.length > 0 && end.equals(FLUSH))
    yield sideBand(2, Buffer.from(terminalLines([], messages)));
  yield end;
}

/** Reads the response of receive-pack as it passes, to find out which updates were applied. */
export interface ReportReader {
  push(chunk: Buffer): void;
  /** Null if the response contained no report. */
  result(): { updated: ReadonlySet<string>; refused: RefRefusal[] } | null;
  /**
   * Returns an explanation once, if git ran out of memory and the response so far ends with a complete packet. Else
   * null.
   */
  remark(): Buffer | null;
}

const OUT_OF_MEMORY =
  'The push contains an object that needs more memory than the hub allows git. To send a large file whole: git -c core.bigFileThreshold=16m push';

export const createReportReader = (capabilities: ReadonlySet<string>): ReportReader => {
  const outer = new PacketSplitter();
  const inner = new PacketSplitter();
  const updated = new Set<string>();
  const refused: RefRefusal[] = [];
  let reported = false;
  let ranOut = false;

  const takeLine = (line: string) => {
    if (line.startsWith('unpack ')) reported = true;
    else if (line.startsWith('ok ')) updated.add(line.slice(3));
    else if (line.startsWith('ng ')) {
      const [, ref = '', ...reason] = line.split(' ');
      refused.push({ ref, reason: reason.join(' ') });
    }
  };
  const readLines = (splitter: PacketSplitter) => {
    for (let payload = splitter.next(); payload !== null; payload = splitter.next()) {
      if (payload !== 'flush') takeLine(payload.toString('utf8').replace(/\n$/, ''));
    }
  };

  return {
    push(chunk) {
      outer.push(chunk);
      if (!capabilities.has('side-band-64k')) return readLines(outer);
      for (let payload = outer.next(); payload !== null; payload = outer.next()) {
        if (payload === 'flush') continue;
        if (payload[0] === 2 && isOutOfMemory(payload.toString('latin1'))) ranOut = true;
        if (payload[0] !== 1) continue;
        inner.push(payload.subarray(1));
        readLines(inner);
      }
    },
    result: () => (reported ? { updated, refused } : null),
    remark: () => {
      if (!ranOut || outer.rest().length > 0) return null;
      ranOut = false;
      return sideBand(2, Buffer.from(terminalLines([], [OUT_OF_MEMORY])));
    },
  };
};

/** For clients that request no report: finds the updates whose refs now hold the new value. */
export const updatesSeen = async (
  updates: readonly RefUpdate[],
  resolve: (ref: string) => Promise<string | null>,
): Promise<Set<string>> => {
  const seen = new Set<string>();
  for (const { ref, newOid } of updates) if ((await resolve(ref)) === newOid) seen.add(ref);
  return seen;
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: they must not reach a terminal
const oneLine = (text: string): string => text.replaceAll(/[\u0000-\u001f\u007f]+/g, ' ').trim();
