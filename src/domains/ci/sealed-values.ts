import type { Context } from '#platform/context.ts';
import { decrypt, decryptOrNull, encrypt } from '#platform/secrets.ts';

const PURPOSE = 'ci.variables';

// The values that a pipeline or a job was given. Those of projects, groups and schedules are sealed for another purpose
// (ci-variables/model.ts): neither opens the other.

/** Seals a value for the column `sealed_value` of `pipeline_variables` and `job_variables`. */
export const sealGivenValue = ({ services }: Pick<Context, 'services'>, value: string): Buffer =>
  encrypt(services.secretKey, value, PURPOSE);

export const openGivenValue = ({ services }: Pick<Context, 'services'>, sealed: Buffer): string =>
  decrypt(services.secretKey, sealed, PURPOSE);

/** The same, but null if it was sealed with another secret key. */
export const readableGivenValue = ({ services }: Pick<Context, 'services'>, sealed: Buffer): string | null =>
  decryptOrNull(services.secretKey, sealed, PURPOSE);
