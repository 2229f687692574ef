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

/** The JSON of a record or of a list, of which some may be written already, in UTF-8. */
export const toJson = (body: unknown): Buffer => {
  if (!Array.isArray(body) || !body.some((each) => each instanceof Written)) return Buffer.from(JSON.stringify(body));
  const items = body.map((each) => (each instanceof Written ? each.bytes : Buffer.from(JSON.stringify(each))));
  // Copied by hand: half of what joining and encoding them as strings takes.
  const json = Buffer.allocUnsafe(items.reduce((length, { length: more }) => length + more + 1, 1));
  json[0] = OPEN;
  let end = 1;
  for (const item of items) {
    end += item.copy(json, end);
    json[end++] = COMMA;
  }
  json[end - 1] = CLOSE;
  return json;
};

const [OPEN = 0, COMMA = 0, CLOSE = 0] = Buffer.from('[,]');
