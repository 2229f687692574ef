/** A request that is answered with an error. SDKs print the detail. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: 400 | 401 | 404 | 413 | 415 | 429 | 503;
  /** The value of `X-Sentry-Rate-Limits`, with the seconds after which the sender may try again. */
  readonly limit: { readonly seconds: number; readonly header: string } | null;

  constructor(status: Refusal['status'], detail: string, limit: Refusal['limit'] = null) {
    super(detail);
    this.status = status;
    this.limit = limit;
  }
}

/** The body is no envelope or no event. */
export const malformed = (detail: string): Refusal => new Refusal(400, detail);

export const tooLarge = (detail: string): Refusal => new Refusal(413, detail);

/** The same for a missing key, an unknown or deleted one, another project, and a project that takes no errors. */
export const unknownKey = (): Refusal =>
  new Refusal(401, 'the client key is missing or unknown, or it belongs to another project');
