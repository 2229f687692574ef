import { z } from 'zod';

/** What `--help` and error messages say about a setting. */
export interface SettingInfo {
  readonly variable: string;
  readonly flag: string;
  /** Stands for the value in `--help`. */
  readonly value: string;
  readonly description: string;
  /** Completes "must be ...". */
  readonly allowed: string;
  readonly defaultText: string;
  /** Its value is never repeated in a message. */
  readonly secret?: true;
}

export const infos = z.registry<SettingInfo>();
