import { z } from 'zod';
import type { Parameters } from './nested.ts';
import { type FileOptions, SpooledFile } from './upload.ts';

// The parts of a kind of parameter. params.ts defines the kinds.

type JsonSchema = Readonly<Record<string, unknown>>;

/** The facts about a kind besides its schema. */
export interface Kind {
  readonly json: JsonSchema;
  readonly emptyIsNull: boolean;
  /** An empty hash is null too. Clients with static types send one for a hash that they do not set. */
  readonly emptyHashIsNull?: true;
  /** The list may also be sent as `a,b`. */
  readonly commas?: true;
  readonly file?: FileOptions;
  /** The OpenAPI document says that it is required. */
  readonly declaredRequired?: true;
  readonly refusesNull?: true;
}

/** A problem of a value. The name of its parameter is put before it. */
export class Refusal {
  readonly problem: string;
  constructor(problem: string) {
    this.problem = problem;
  }
}

export const INVALID = new Refusal('is invalid');
export const MISSING = new Refusal('is missing');
export const BLANK = new Refusal("can't be blank");
/** The message that existing tools know, plus the allowed values. */
export const invalid = (allowed: string) => new Refusal(`is invalid (allowed: ${allowed})`);
export const notInList = (allowed: string) => new Refusal(`does not have a valid value (allowed: ${allowed})`);

export const kinds = new WeakMap<z.core.$ZodType, Kind>();

export const define = <T>(kind: Kind, read: (value: unknown) => T | Refusal): z.ZodType<T> => {
  const schema = z.unknown().transform((value, ctx): T => {
    const result = value === undefined ? MISSING : value === null ? BLANK : read(value);
    if (!(result instanceof Refusal)) return result;
    ctx.issues.push({ code: 'custom', message: result.problem, input: value });
    return z.NEVER;
  });
  kinds.set(schema, kind);
  return schema;
};

/** Returns the kind of a schema, through `.optional()`, `.default()`, `.nullable()` and similar wrappers. */
export const kindOf = (schema: z.core.$ZodType): Kind | undefined => {
  const { def, parent } = schema._zod;
  // `.describe()` and `.refine()` return copies that refer to the original as their parent.
  const kind = kinds.get(schema) ?? (parent && kindOf(parent));
  if (kind) return kind;
  if ('innerType' in def && def.innerType instanceof z.core.$ZodType) return kindOf(def.innerType);
  return 'in' in def && def.in instanceof z.core.$ZodType ? kindOf(def.in) : undefined;
};

/** Whether the value is a hash of parameters. */
export const isObject = (value: unknown): value is Parameters =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof SpooledFile);
