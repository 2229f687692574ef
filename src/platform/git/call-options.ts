/** What most functions of `Git` take last. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Lets git also find the objects of another repository. */
export interface ForeignOptions {
  readonly withObjectsOf?: string | undefined;
}
