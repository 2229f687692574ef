import { badParameters } from '#platform/errors.ts';

/** A record that is JSON already: whoever keeps it can send it again without making and writing it anew. */
export class Written<T> {
  readonly bytes: Buffer;

  constructor(record: T) {
    this.bytes = Buffer.from(JSON.stringify(record));
  }

  read(): T {
    return JSON.parse(this.bytes.toString());
  }
}

/** Characters of a list, or bytes of what is written already. Records of usual size stay far below it; a page of the longest texts does not. */
const MAX_LIST_LENGTH = 32 * 1024 * 1024;

/**
 * The JSON of a record or of a list, of which some may be written already, in UTF-8.
 * @throws DomainError `parameters` for a list longer than that
 */
export const toJson = (body: unknown): Buffer => {
  if (!Array.isArray(body)) return Buffer.from(JSON.stringify(body));
  let length = 1;
  let isWritten = false;
  // One by one: what is too much is noticed before all of it is written.
  const items = body.map((each) => {
    const item = each instanceof Written ? each.bytes : JSON.stringify(each);
    isWritten ||= each instanceof Written;
    length += item.length + 1;
    if (length > MAX_LIST_LENGTH)
      throw badParameters(
        `per_page is too large for records of this size: the answer exceeds ${MAX_LIST_LENGTH} characters`,
      );
    return item;
  });
  if (!isWritten) return Buffer.from(`[${items.join(',')}]`);
  // Copied by hand: half of what joining and encoding them as strings takes.
  const bytes = items.map((item) => (typeof item === 'string' ? Buffer.from(item) : item));
  const json = Buffer.allocUnsafe(bytes.reduce((total, { length: more }) => total + more + 1, 1));
  json[0] = OPEN;
  let end = 1;
  for (const item of bytes) {
    end += item.copy(json, end);
    json[end++] = COMMA;
  }
  json[end - 1] = CLOSE;
  return json;
};

const [OPEN = 0, COMMA = 0, CLOSE = 0] = Buffer.from('[,]');
