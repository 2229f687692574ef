import { z } from 'zod';
import { EncodedJson } from './encoded-json.ts';
import { markOf, V4, V5 } from './v5.ts';

/** Makes the value of version 5 from one of version 4. `base` is the URL of the hub, `record` has the value. */
type Conversion = (value: unknown, base: string, record: Readonly<Record<string, unknown>>) => unknown;

const conversions = new WeakMap<z.core.$ZodType, Conversion | null>();

/**
 * Returns the function that makes a record of version 5, or null if the record is the same in both versions. It is
 * derived from the schema once, and visits only the parts of a record that differ.
 */
const toV5 = (schema: z.core.$ZodType): Conversion | null => {
  const known = conversions.get(schema);
  if (known !== undefined) return known;
  // A record that contains itself ends here.
  conversions.set(schema, null);
  const conversion = conversionOf(schema);
  conversions.set(schema, conversion);
  return conversion;
};

/** Makes the answer of version 5 from an answer of version 4: a record, or the items of a list. */
export const answerInV5 = (schema: z.core.$ZodType, body: unknown, base: string): unknown => {
  const convert = toV5(schema);
  if (!convert) return body;
  const one = (item: unknown) => convert(item instanceof EncodedJson ? item.read() : item, base, NO_RECORD);
  return Array.isArray(body) && !(schema instanceof z.ZodArray) ? body.map(one) : one(body);
};

const NO_RECORD = {};

const conversionOf = (schema: z.core.$ZodType): Conversion | null => {
  const mark = markOf(schema);
  if (mark?.kind === 'link') return inOwnVersion;
  if (mark?.kind === 'changed') return (value, _base, record) => mark.convert(value, record);
  if (schema instanceof z.ZodObject) return ofObject([schema]);
  if (schema instanceof z.ZodUnion) return ofUnion(schema.options);
  if (schema instanceof z.ZodArray) return ofItems(toV5(schema.element));
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    const inner = toV5(schema.def.innerType);
    return (
      inner && ((value, base, record) => (value === null || value === undefined ? value : inner(value, base, record)))
    );
  }
  return null;
};

const inOwnVersion: Conversion = (value, base) =>
  typeof value === 'string' && value.startsWith(base + V4) ? base + V5 + value.slice(base.length + V4.length) : value;

const ofItems = (convert: Conversion | null): Conversion | null =>
  convert && ((value, base) => (Array.isArray(value) ? value.map((item) => convert(item, base, NO_RECORD)) : value));

/** Attributes of the same name mean the same in all forms of a record. */
const ofUnion = (options: readonly z.core.$ZodType[]): Conversion | null =>
  ofObject(options.filter((option): option is z.ZodObject => option instanceof z.ZodObject));

const ofObject = (forms: readonly z.ZodObject[]): Conversion | null => {
  const removed = new Set<string>();
  const changed = new Map<string, Conversion>();
  for (const [name, field] of forms.flatMap((form) => Object.entries(form.shape))) {
    if (markOf(field)?.kind === 'removed') removed.add(name);
    const convert = toV5(field);
    if (convert) changed.set(name, convert);
  }
  if (removed.size === 0 && changed.size === 0) return null;
  return (value, base) => {
    if (typeof value !== 'object' || value === null) return value;
    const record: Record<string, unknown> = {};
    const whole: Readonly<Record<string, unknown>> = { ...value };
    for (const [name, each] of Object.entries(whole)) {
      if (removed.has(name)) continue;
      const convert = changed.get(name);
      record[name] = convert ? convert(each, base, whole) : each;
    }
    return record;
  };
};
