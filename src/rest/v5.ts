import { z } from 'zod';

// Version 5 of the API is version 4 after the removals of section 9 of the specifications. Each removal is declared once,
// on the parameter, the attribute or the route that it concerns. The preview at `/api/v5`, both OpenAPI documents, the
// headers of deprecated requests and docs/version-5.md follow from these declarations.

/** The replacement of something that is deprecated. */
export interface Replacement {
  /** A name, a route, or a few words: it follows "use". */
  readonly replacedBy: string;
  /** For routes: the path below `/api/v5` that continues the resource, with the parameters of the deprecated path. */
  readonly successor?: string;
}

/** How a parameter or an attribute differs in version 5. */
export type Mark =
  | ({ readonly kind: 'removed' } & Replacement)
  /** Names inside a hash with arbitrary keys. */
  | { readonly kind: 'removed_inside'; readonly names: Readonly<Record<string, Replacement>> }
  | {
      readonly kind: 'changed';
      /** The rest of a sentence that begins with the name, such as `must be true or false`. */
      readonly note: string;
      readonly schema: z.ZodType;
      /** Converts a value of version 4. Only for attributes. */
      convert: Convert;
    }
  /** A URL of this API. It continues in the version that the caller uses. */
  | { readonly kind: 'link' };

const marks = new WeakMap<z.core.$ZodType, Mark>();

const mark = <T extends z.ZodType>(schema: T, kind: Mark, meta: { deprecated?: true; description?: string }): T => {
  const marked = schema.meta({ ...schema.meta(), ...meta });
  marks.set(marked, kind);
  return marked;
};

const described = (schema: z.ZodType, more: string): string =>
  schema.description === undefined ? more : `${schema.description} ${more}`;

/** Marks a parameter or an attribute that version 5 does not have. */
export const removedInV5 = <T extends z.ZodType>(schema: T, replacement: Replacement): T =>
  mark(
    schema,
    { kind: 'removed', ...replacement },
    { deprecated: true, description: described(schema, `Deprecated and removed in version 5: ${useOf(replacement)}.`) },
  );

/** Marks a hash with arbitrary keys. Version 5 does not have some of them. */
export const removedInsideInV5 = <T extends z.ZodType>(schema: T, names: Readonly<Record<string, Replacement>>): T => {
  const list = Object.entries(names).map(([name, replacement]) => `\`${name}\` (${useOf(replacement)})`);
  const description = described(schema, `Deprecated and removed in version 5: ${list.join(', ')}.`);
  return mark(schema, { kind: 'removed_inside', names }, { description });
};

/** Marks a parameter or an attribute with other values in version 5. `convert` maps a value of version 4. */
export const changedInV5 = <T extends z.ZodType>(
  schema: T,
  { note, to, convert = (value) => value }: { readonly note: string; readonly to: z.ZodType; convert?: Convert },
): T => {
  const description = described(schema, `In version 5 it ${note}.`);
  return mark(schema, { kind: 'changed', note, schema: to, convert }, { description });
};

/** Makes a value of version 5. Gets the record that the value is part of. */
type Convert = (value: unknown, record: Readonly<Record<string, unknown>>) => unknown;

/** Marks the parameters or attributes of these names as removed in version 5. */
export const withRemovals = <S extends Readonly<Record<string, z.ZodType>>>(
  shape: S,
  names: Readonly<Record<string, Replacement>>,
): S => {
  const marked = { ...shape };
  for (const [name, replacement] of Object.entries(names)) {
    const field = shape[name];
    if (field) Reflect.set(marked, name, removedInV5(field, replacement));
  }
  return marked;
};

/** Marks the attribute as a URL of this API. */
export const apiLink = <T extends z.ZodType>(schema: T): T => mark(schema, { kind: 'link' }, {});

/** Returns the mark of a schema, through `.optional()`, `.nullable()`, `.describe()` and similar wrappers. */
export const markOf = (schema: z.core.$ZodType): Mark | undefined => {
  const { def, parent } = schema._zod;
  const found = marks.get(schema) ?? (parent && markOf(parent));
  if (found) return found;
  return 'innerType' in def && def.innerType instanceof z.core.$ZodType ? markOf(def.innerType) : undefined;
};

/** Returns, for example, ``use `topics` ``. Words and routes stand as they are. */
export const useOf = ({ replacedBy }: Replacement): string =>
  `use ${/^\w+$/.test(replacedBy) ? `\`${replacedBy}\`` : replacedBy}`;

export const V4 = '/api/v4/';
export const V5 = '/api/v5/';
