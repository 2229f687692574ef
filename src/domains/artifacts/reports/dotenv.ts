import { DomainError } from '#platform/errors.ts';
import { isStorable } from '#platform/values/storable.ts';

const MAX_BYTES = 5_120;
const MAX_VARIABLES = 20;
const LINE = /^\s*([A-Za-z0-9_]{1,255})\s*=(.*)$/;

/**
 * Reads a dotenv report: a `KEY=value` on each line. White space around both is left out. If two have the same key, the
 * last one counts.
 *
 * @throws DomainError `bad_request`
 */
export const readDotenv = async (content: AsyncIterable<Buffer>): Promise<ReadonlyMap<string, string>> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of content) {
    size += chunk.length;
    if (size > MAX_BYTES) throw refused(`Dotenv Artifact Too Big. Maximum Allowable Size: ${MAX_BYTES}`);
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString();
  const variables = new Map<string, string>();
  for (const line of text.replace(/\r?\n$/, '').split(/\r?\n/)) {
    if (text === '') break;
    const [, key, value = ''] = LINE.exec(line) ?? [];
    if (key === undefined || !isStorable(value)) throw refused('Invalid Format');
    variables.set(key, value.trim());
  }
  if (variables.size > MAX_VARIABLES) {
    throw refused(`Dotenv files cannot have more than ${MAX_VARIABLES} variables`);
  }
  return variables;
};

const refused = (message: string) => new DomainError('bad_request', message);
