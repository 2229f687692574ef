import { z } from 'zod';

/** The description of a setting in `--help` and error messages. */
export interface SettingInfo {
  readonly variable: string;
  readonly flag: string;
  /** The placeholder for the value in `--help`. */
  readonly value: string;
  readonly description: string;
  /** Completes "must be ...". */
  readonly allowed: string;
  readonly defaultText: string;
  /** If true, messages never repeat the value. */
  readonly secret?: true;
}

export const infos = z.registry<SettingInfo>();
