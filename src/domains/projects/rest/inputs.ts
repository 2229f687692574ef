import { z } from 'zod';
import { VISIBILITIES } from '#domains/access/model.ts';
import { anyHash, boolean, commaList, integer, oneOf, text } from '#rest/params.ts';
import { attributeAliases, attributeNames, attributeSchemas, featureSwitches, schemaKind } from '../attributes.ts';

/** The parameter of each setting, from its schema. Values are judged by `readAttributes`. */
function settingInputs(): Readonly<Record<SettingInput, z.ZodType<unknown>>>;
function settingInputs(): Readonly<Record<string, z.ZodType>> {
  const inputs: Record<string, z.ZodType> = { emails_disabled: boolean().optional() };
  for (const name of attributeNames) inputs[name] = inputOf(attributeSchemas[name]);
  for (const [alias, name] of Object.entries(attributeAliases)) inputs[alias] = inputOf(attributeSchemas[name]);
  for (const name of Object.keys(featureSwitches)) inputs[name] = boolean().optional();
  return inputs;
}
type SettingInput =
  | keyof typeof attributeSchemas
  | keyof typeof attributeAliases
  | keyof typeof featureSwitches
  | 'emails_disabled';

const inputOf = (schema: z.ZodType): z.ZodType => {
  const input = plainInput(schema);
  return schema instanceof z.ZodNullable ? input.nullish() : input.optional();
};

const plainInput = (schema: z.core.$ZodType): z.ZodType => {
  if (schema instanceof z.ZodNullable) return plainInput(schema.unwrap());
  if (schema instanceof z.ZodEnum) return oneOf(schema.options.map(String));
  switch (schemaKind(schema)) {
    case 'boolean':
      return boolean();
    case 'integer':
      return integer();
    case 'list':
      return commaList(text());
    case 'object':
      return anyHash();
    default:
      return text();
  }
};

/** What projects are changed by. */
export const projectInputs = {
  ...settingInputs(),
  name: text({ max: 255 }).optional(),
  path: text({ max: 255 }).optional(),
  visibility: oneOf(VISIBILITIES).optional(),
  default_branch: text({ max: 255 }).optional(),
};
/** What they are made from. */
export const creationInputs = { ...projectInputs, initialize_with_readme: boolean().optional() };
