/** A record that is JSON already: whoever keeps it can send it again without making and writing it anew. */
export class Written<T> {
  readonly json: string;

  constructor(record: T) {
    this.json = JSON.stringify(record);
  }

  read(): T {
    return JSON.parse(this.json);
  }
}

/** The JSON of a record or of a list, of which some may be written already. */
export const toJson = (body: unknown): string =>
  Array.isArray(body) && body.some((each) => each instanceof Written)
    ? `[${body.map((each) => (each instanceof Written ? each.json : JSON.stringify(each))).join(',')}]`
    : JSON.stringify(body);
