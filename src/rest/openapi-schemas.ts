import { z } from 'zod';
import { kindOf } from './param-kind.ts';
import type { ApiVersion } from './route.ts';
import { markOf } from './v5.ts';

// The schemas of the OpenAPI document: from the shapes of parameters and records to JSON Schema.

export interface Json {
  [key: string]: unknown;
}

/** The components found so far, for one version of the API. */
export interface Schemas {
  readonly apiVersion: ApiVersion;
  readonly components: Json;
}

const COMMA_SEPARATED = { type: 'string' as const, description: 'Separated by commas.' };

/** Converts the schema of a parameter. */
export const inputSchema = (schema: z.ZodType | undefined, schemas: Schemas): Json =>
  schema ? jsonSchema(schema, 'input', schemas) : {};
/** Converts the schema of a record. */
export const outputSchema = (schema: z.ZodType, schemas: Schemas): Json => jsonSchema(schema, 'output', schemas);

/** Converts a schema to JSON Schema. Adds its components to `schemas` and refers to them. */
const jsonSchema = (schema: z.ZodType, io: 'input' | 'output', schemas: Schemas): Json => {
  const { $schema, $defs, ...json } = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema: target, path }) => {
      // Clients must tolerate fields that a later version adds.
      if (target.type === 'object' && target.additionalProperties === false) delete target.additionalProperties;
      // These bounds are JavaScript's, not ours.
      if (target.minimum === Number.MIN_SAFE_INTEGER) delete target.minimum;
      if (target.maximum === Number.MAX_SAFE_INTEGER) delete target.maximum;
      const { def } = zodSchema._zod;
      const kind = kindOf(zodSchema);
      if (kind && def.type === 'pipe') Object.assign(target, kind.json);
      // Inside a body or a hash, a list that accepts commas may also be a single string. At the top level it is a query
      // parameter.
      if (kind?.commas && def.type === 'pipe' && io === 'input' && path.includes('properties')) {
        const array = { ...target };
        for (const key of Object.keys(target)) Reflect.deleteProperty(target, key);
        target.anyOf = [COMMA_SEPARATED, array];
      }
      // zod emits `number` for all numeric literals and unions, including integers.
      if (target.type === 'number' && Number.isInteger(target.const)) target.type = 'integer';
      // zod omits the default when a transformation follows. Our transformations only change the spelling.
      if (kind && def.type === 'default' && 'defaultValue' in def) target.default = def.defaultValue;
      if (schemas.apiVersion === 5 && io === 'output') toRecordOfV5(zodSchema, target);
    },
  });
  for (const [name, component] of Object.entries($defs ?? {})) schemas.components[name] ??= rewriteRefs(component);
  const { id } = schema.meta() ?? {};
  const plain = asObject(rewriteRefs(json));
  // zod does not extract a record that is the whole schema.
  if (typeof id !== 'string' || '$ref' in plain) return plain;
  const { id: _id, ...component } = plain;
  schemas.components[id] ??= component;
  return { $ref: `#/components/schemas/${id}` };
};

/** Removes the attributes that version 5 does not have, and describes those with other values. */
const toRecordOfV5 = (schema: z.core.$ZodType, target: Json): void => {
  const { def } = schema._zod;
  const mark = markOf(schema);
  if (mark?.kind === 'changed') {
    for (const key of Object.keys(target)) Reflect.deleteProperty(target, key);
    const { $schema, ...json } = z.toJSONSchema(mark.schema, { io: 'output', target: 'draft-2020-12' });
    Object.assign(target, json);
  }
  if (def.type !== 'object' || !(schema instanceof z.ZodObject)) return;
  const removed = Object.keys(schema.shape).filter((name) => markOf(schema.shape[name])?.kind === 'removed');
  for (const name of removed) Reflect.deleteProperty(asMutable(target.properties), name);
  if (Array.isArray(target.required)) target.required = target.required.filter((name) => !removed.includes(name));
};

const asMutable = (value: unknown): object => (typeof value === 'object' && value !== null ? value : {});

const rewriteRefs = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(rewriteRefs);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [
      key,
      key === '$ref' && typeof each === 'string'
        ? each.replace('#/$defs/', '#/components/schemas/')
        : rewriteRefs(each),
    ]),
  );
};

const asObject = (value: unknown): Json => (typeof value === 'object' && value !== null ? { ...value } : {});
