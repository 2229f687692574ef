import { z } from 'zod';
import { VISIBILITIES, visibilityLevel } from '#domains/access/model.ts';
import { invalid } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { coerce, isSettingName, type ProjectAttributes, problemOf, readAttributes } from './attributes.ts';
import { type PolicyChanges, readPolicyChanges } from './expiration-policy.ts';

/** The attributes that a client can override beside the settings. */
const beyondSettings = z
  .object({
    name: z.string().max(255),
    path: z.string().max(255),
    default_branch: z.string().max(255).refine(validRefName, 'is invalid'),
    visibility: z.enum(VISIBILITIES),
    visibility_level: z.literal([0, 10, 20]),
    archived: z.boolean(),
    repository_storage: z.string(),
  })
  .partial();

export interface Overrides extends ProjectAttributes {
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  readonly default_branch?: string | undefined;
  readonly visibility_level?: number | undefined;
  readonly archived?: boolean | undefined;
  readonly repository_storage?: string | undefined;
  readonly container_expiration_policy_attributes?: PolicyChanges | undefined;
}

const MAX_NAMED = 20;

/**
 * Reads `override_params` of an import: every attribute that a change of the project takes, except pictures, and
 * `archived`. Values from forms arrive as text. An empty string overrides nothing.
 *
 * @throws DomainError `invalid`, naming each invalid value and each name that cannot be overridden
 */
export const readOverrides = (params: Readonly<Record<string, unknown>>): Overrides => {
  const given = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== ''));
  const { container_expiration_policy_attributes: policy, ...others } = given;
  const beyond: Record<string, unknown> = {};
  const problems: Record<string, string[]> = {};
  for (const [name, value] of Object.entries(others)) {
    const schema = Object.entries(beyondSettings.shape).find(([known]) => known === name)?.[1];
    if (schema && value !== null)
      beyond[name] = name === 'visibility_level' ? Number(value) : coerce(value, schema.unwrap());
    else if (!schema && !isSettingName(name)) problems[name] = ['cannot be overridden by an import'];
  }
  const parsed = beyondSettings.safeParse(beyond);
  for (const issue of parsed.error?.issues ?? []) problems[String(issue.path[0] ?? 'base')] = [problemOf(issue)];
  if (policy !== undefined && !isHash(policy)) problems.container_expiration_policy_attributes = ['is invalid'];
  if (!parsed.success || Object.keys(problems).length > 0) {
    throw invalid(Object.fromEntries(Object.entries(problems).slice(0, MAX_NAMED)));
  }
  const { visibility, ...rest } = parsed.data;
  return {
    ...readAttributes(others),
    ...rest,
    ...(visibility === undefined ? {} : { visibility_level: visibilityLevel(visibility) }),
    ...(isHash(policy) ? { container_expiration_policy_attributes: readPolicyChanges(policy) } : {}),
  };
};

const isHash = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
