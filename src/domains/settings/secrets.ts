import type { Context } from '#platform/context.ts';
import { decrypt, encrypt } from '#platform/secrets.ts';
import { type SettingName, secretNames } from './registry.ts';

/** Shown for a secret that is set. A client that sends it back leaves the secret unchanged. */
export const SECRET_MASK = '********';

/** The encrypted values of the secret settings that are set. */
export type SealedSecrets = ReadonlyMap<SettingName, string>;

/** Picks the encrypted secrets from the stored attributes. */
export const sealedSecrets = (attributes: object): SealedSecrets =>
  new Map(
    secretNames.flatMap((name) => {
      const sealed: unknown = Reflect.get(attributes, name);
      return typeof sealed === 'string' ? [[name, sealed]] : [];
    }),
  );

/** Encrypts the value of a secret setting as base64, for storage. */
export const sealSetting = ({ services }: Pick<Context, 'services'>, name: SettingName, value: string): string =>
  encrypt(services.secretKey, value, purposeOf(name)).toString('base64');

/** Decrypts a secret setting. @throws if it was sealed with another instance key */
export const openSetting = ({ services }: Pick<Context, 'services'>, name: SettingName, sealed: string): string =>
  decrypt(services.secretKey, Buffer.from(sealed, 'base64'), purposeOf(name));

const purposeOf = (name: SettingName): string => `setting:${name}`;
