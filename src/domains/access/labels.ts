import { createHash } from 'node:crypto';

/** The classification labels whose projects an external service opens to a user. */
export interface OpenLabels {
  /** The result of `labelDigest` for them. */
  readonly digests: readonly string[];
  /** Those that the service has not answered about. They are not open. */
  readonly unanswered: readonly string[];
}

/** Returns the digest of a classification label, as `Actor.openLabels` and the SQL of visibility have it. */
export const labelDigest = (label: string): string => createHash('md5').update(label).digest('hex');
