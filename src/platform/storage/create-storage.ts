import { createLocalStorage, type LocalStorageOptions } from './local-storage.ts';
import { createS3Storage } from './s3-storage.ts';
import type { Storage } from './storage.ts';

export type StorageConfig =
  | ({ readonly kind: 'local' } & LocalStorageOptions)
  /** Region, endpoint and credentials come from the standard `AWS_*` variables. */
  | { readonly kind: 's3'; readonly bucket: string; readonly prefix?: string };

export const createStorage = (config: StorageConfig): Storage =>
  config.kind === 'local' ? createLocalStorage(config) : createS3Storage(config);
