import type { InputFieldMap } from '@pothos/core';
import type { InputFields } from '#graphql/builder.ts';
import {
  attributeNames,
  attributeSchemas,
  type ProjectAttributes,
  readAttributes,
  removedAttributes,
  schemaKind,
} from '../attributes.ts';

const camelCase = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

const inputNames = attributeNames.map((name) => ({ name, input: camelCase(name) }));

/** Returns an input field for each setting of attributes.ts, such as `ciConfigPath` for `ci_config_path`. */
export const settingFields = (t: InputFields): InputFieldMap => {
  const fields: InputFieldMap = {};
  for (const { name, input } of inputNames) {
    const kind = schemaKind(attributeSchemas[name]);
    const options = optionsOf(name);
    fields[input] =
      kind === 'boolean'
        ? t.boolean(options)
        : kind === 'integer'
          ? t.int(options)
          : kind === 'list'
            ? t.stringList(options)
            : kind === 'object'
              ? t.field({ ...options, type: 'JSON' })
              : t.string(options);
  }
  return fields;
};

/** Deprecates what version 5 of the REST API removes. */
const optionsOf = (name: string): { deprecationReason?: string } => {
  const replacement = Object.entries(removedAttributes).find(([removed]) => removed === name)?.[1];
  return replacement ? { deprecationReason: `Use ${replacement.replacedBy}.` } : {};
};

/** Reads the settings from an input. @throws DomainError `invalid` */
export const readSettings = (input: Readonly<Record<string, unknown>>): ProjectAttributes =>
  readAttributes(Object.fromEntries(inputNames.map(({ name, input: from }) => [name, input[from]])));
