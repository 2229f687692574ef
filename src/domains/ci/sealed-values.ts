import type { Context } from '#platform/context.ts';
import { decrypt, encrypt } from '#platform/secrets.ts';

const PURPOSE = 'ci.variables';

/** Seals the value of a pipeline's or a job's variable for its column `sealed_value`. */
export const sealValue = ({ services }: Pick<Context, 'services'>, value: string): Buffer =>
  encrypt(services.secretKey, value, PURPOSE);

export const openValue = ({ services }: Pick<Context, 'services'>, sealed: Buffer): string =>
  decrypt(services.secretKey, sealed, PURPOSE);
