import { z } from 'zod';
import { VISIBILITIES } from '#domains/access/model.ts';
import { MAX_AVATAR_BYTES } from '#domains/users/avatar.ts';
import { type SentFile, tooBig } from '#platform/files/picture.ts';
import { anyHash, atLeastOneOf, boolean, commaList, fileUpload, integer, oneOf, text } from '#rest/params.ts';
import { withRemovals } from '#rest/v5.ts';
import {
  attributeAliases,
  attributeNames,
  attributeSchemas,
  featureSwitches,
  removedAttributes,
  schemaKind,
} from '../attributes.ts';
import { readPolicyChanges } from '../expiration-policy.ts';

/** The parameter of each setting, from its schema. `readAttributes` checks the values. */
function settingInputs(): Readonly<Record<SettingInput, z.ZodType<unknown>>>;
function settingInputs(): Readonly<Record<string, z.ZodType>> {
  const inputs: Record<string, z.ZodType> = { emails_disabled: boolean().optional() };
  for (const name of attributeNames) inputs[name] = inputOf(attributeSchemas[name]);
  for (const [alias, name] of Object.entries(attributeAliases)) inputs[alias] = inputOf(attributeSchemas[name]);
  for (const name of Object.keys(featureSwitches)) inputs[name] = boolean().optional();
  return withRemovals(inputs, removedAttributes);
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

const OFF: ReadonlySet<string> = new Set(['', 'false', '0']);

/** A parameter for a feature that is not built. Refused unless it is off, not ignored. */
const unbuilt = (reason: string) =>
  text()
    .refine((value) => OFF.has(value.toLowerCase()), `is not supported: ${reason}`)
    .nullish()
    .describe(`Not supported: ${reason}.`);

const NO_TEMPLATES = 'there are no project templates here';
const NO_MIRRORS = 'repositories are not mirrored here';

/** The inputs that change a project. */
export const projectInputs = {
  ...settingInputs(),
  template_name: unbuilt(NO_TEMPLATES),
  template_project_id: unbuilt(NO_TEMPLATES),
  use_custom_template: unbuilt(NO_TEMPLATES),
  group_with_project_templates_id: unbuilt(NO_TEMPLATES),
  mirror: unbuilt(NO_MIRRORS),
  mirror_trigger_builds: unbuilt(NO_MIRRORS),
  mirror_user_id: unbuilt(NO_MIRRORS),
  mirror_overwrites_diverged_branches: unbuilt(NO_MIRRORS),
  only_mirror_protected_branches: unbuilt(NO_MIRRORS),
  import_url: unbuilt('a repository is imported as its project is created, and not again'),
  name: text({ max: 255 }).optional(),
  path: text({ max: 255 }).optional(),
  visibility: oneOf(VISIBILITIES).optional(),
  default_branch: text({ max: 255, emptyIsNull: true }).optional(),
  container_expiration_policy_attributes: anyHash().optional(),
  repository_storage: text({ max: 255 })
    .optional()
    .describe('Administrators only. `default` is the only allowed value.'),
  max_artifacts_size: integer({ min: 1, max: 1_000_000 })
    .nullish()
    .describe('Administrators only. MiB. Empty: as the group above, or the instance.'),
  /** A PNG, JPEG, GIF or WebP image of at most 200 KiB. An empty value removes it. */
  avatar: fileUpload({ maxBytes: MAX_AVATAR_BYTES, tooLarge: tooBig(MAX_AVATAR_BYTES) }).nullish(),
};
const inputNames = Object.keys(projectInputs).filter((name): name is keyof typeof projectInputs =>
  Object.hasOwn(projectInputs, name),
);
/** A change must include at least one input. */
export const someChange = atLeastOneOf(...inputNames);
/** The inputs that create a project. */
export const creationInputs = {
  ...projectInputs,
  initialize_with_readme: boolean().optional(),
  import_url: text({ max: 2_048 })
    .optional()
    .describe('The http or https address of a git repository that a job clones. May include credentials.'),
};

export const nameOrPath = atLeastOneOf('name', 'path');

export interface BeyondSettings {
  readonly avatar?: SentFile | null | undefined;
  readonly container_expiration_policy_attributes?: Readonly<Record<string, unknown>> | undefined;
  readonly repository_storage?: string | undefined;
  readonly max_artifacts_size?: number | null | undefined;
}

/** Returns the parameters that are not settings, as commands take them. */
export const beyondSettings = ({
  avatar,
  container_expiration_policy_attributes: policy,
  repository_storage,
  max_artifacts_size,
}: BeyondSettings) => ({
  avatar,
  repository_storage,
  max_artifacts_size,
  container_expiration_policy_attributes: policy && readPolicyChanges(policy),
});
