import type { InputFieldMap } from '@pothos/core';
import type { Types } from '#graphql/builder.ts';
import { attributeNames, attributeSchemas, type ProjectAttributes, readAttributes, schemaKind } from '../attributes.ts';

const camelCase = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

const inputNames = attributeNames.map((name) => ({ name, input: camelCase(name) }));

/** Returns an input field for each setting of attributes.ts, such as `ciConfigPath` for `ci_config_path`. */
export const settingFields = (t: PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>): InputFieldMap => {
  const fields: InputFieldMap = {};
  for (const { name, input } of inputNames) {
    const kind = schemaKind(attributeSchemas[name]);
    fields[input] =
      kind === 'boolean'
        ? t.boolean()
        : kind === 'integer'
          ? t.int()
          : kind === 'list'
            ? t.stringList()
            : kind === 'object'
              ? t.field({ type: 'JSON' })
              : t.string();
  }
  return fields;
};

/** Reads the settings from an input. @throws DomainError `invalid` */
export const readSettings = (input: Readonly<Record<string, unknown>>): ProjectAttributes =>
  readAttributes(Object.fromEntries(inputNames.map(({ name, input: from }) => [name, input[from]])));
