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

/** A setting whose value is a whole number in this range, written in digits. */
export const wholeNumber = (
  [min, max]: readonly [min: number, max: number],
  defaultValue: number,
  info: Pick<SettingInfo, 'variable' | 'flag' | 'value' | 'description'>,
) =>
  z
    .string()
    .regex(/^\d{1,9}$/)
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .default(defaultValue)
    .register(infos, {
      ...info,
      allowed: `a whole number from ${min} to ${max}`,
      defaultText: String(defaultValue),
    });
