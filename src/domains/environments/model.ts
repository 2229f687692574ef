import { createHash } from 'node:crypto';
import type { Selectable } from 'kysely';
import { type JobEnvironment, TIERS, type Tier } from '#domains/ci-config/model.ts';
import type { Deployments, Environments } from '#platform/db/tables.ts';
import { type FieldErrors, tooLong } from '#platform/errors.ts';
import { isWebAddress } from '#platform/urls.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';

export interface EnvironmentRow extends Selectable<Environments> {
  /** The newest successful deployment. */
  readonly last_deployment_id: number | null;
}

export interface DeploymentRow extends Selectable<Deployments> {
  /** The name of its environment. */
  readonly environment: string;
}

export const ENVIRONMENT_STATES = ['available', 'stopping', 'stopped'] as const;
export type EnvironmentState = (typeof ENVIRONMENT_STATES)[number];

export const DEPLOYMENT_STATUSES = ['created', 'running', 'success', 'failed', 'canceled', 'skipped'] as const;
export type DeploymentStatus = (typeof DEPLOYMENT_STATUSES)[number];

/** The statuses that callers may report. */
export const REPORTED_DEPLOYMENTS = ['running', 'success', 'failed', 'canceled'] as const;
export type ReportedDeployment = (typeof REPORTED_DEPLOYMENTS)[number];

export const isFinished = ({ status }: { readonly status: string }): boolean =>
  status === 'success' || status === 'failed' || status === 'canceled' || status === 'skipped';

const GUESSES: readonly (readonly [RegExp, Tier])[] = [
  [/dev|review|trunk/i, 'development'],
  [/test|tst|int|acc?e?pt|qa|qc|control|quality/i, 'testing'],
  [/sta?g|mode?l|pre|demo|non/i, 'staging'],
  [/pro?d|live/i, 'production'],
];

/** Returns the tier that the name of an environment suggests. */
export const guessTier = (name: string): Tier => GUESSES.find(([pattern]) => pattern.test(name))?.[1] ?? 'other';

/** Returns the stored text as a tier. */
export const tierOf = (text: string | null): Tier | null => TIERS.find((tier) => tier === text) ?? null;

const MAX_SLUG = 24;
const MAX_SHORTENED = 17;

/**
 * Returns a form of the name for host names, at most 24 characters of a-z, 0-9 and `-`. Where that loses something, it
 * ends with six characters of a digest, so that similar names differ.
 */
export const slugOf = (name: string): string => {
  const plain = name.toLowerCase().replace(/[^a-z0-9]+/g, '-');
  const slug = /^[a-z]/.test(plain) ? plain : `env-${plain}`.replace(/-+/g, '-');
  if (slug === name && slug.length <= MAX_SLUG) return slug.replace(/-$/, '');
  const digest = BigInt(`0x${createHash('sha256').update(name).digest('hex')}`)
    .toString(36)
    .slice(-6);
  return `${slug.slice(0, MAX_SHORTENED).replace(/-$/, '')}-${digest}`;
};

/** Returns the variables by which a job knows its environment. */
export const environmentVariables = (
  { name, tier }: { readonly name: string; readonly tier: string },
  settings: Pick<JobEnvironment, 'action' | 'deployment_tier'> | null,
): { readonly key: string; readonly value: string }[] => [
  { key: 'CI_ENVIRONMENT_NAME', value: name },
  { key: 'CI_ENVIRONMENT_SLUG', value: slugOf(name) },
  { key: 'CI_ENVIRONMENT_ACTION', value: settings?.action ?? 'start' },
  { key: 'CI_ENVIRONMENT_TIER', value: settings?.deployment_tier ?? tier },
];

const NAME = /^(?!\/)[A-Za-z0-9_/\\${} .-]+(?<!\/)$/;
const MAX_TEXT = 255;
const MAX_DESCRIPTION = 10_000;

/** What people set. Without a tier, it follows from the name. */
export interface EnvironmentAttributes {
  readonly external_url?: string | null | undefined;
  readonly description?: string | null | undefined;
  readonly tier?: Tier | null | undefined;
}

export interface NewEnvironment extends EnvironmentAttributes {
  readonly name: string;
}

/** Returns what is wrong with an environment, by attribute. */
export const problemsOf = ({ name, external_url, description }: NewEnvironment): FieldErrors => {
  const problems: Record<string, string[]> = {};
  if (name === '') problems.name = ["can't be blank"];
  else if (isLongerThan(name, MAX_TEXT)) problems.name = [tooLong(MAX_TEXT)];
  else if (!NAME.test(name))
    problems.name = [
      "can contain only letters, digits, '-', '_', '/', '$', '{', '}', '.', and spaces, but it cannot start or end with '/'",
    ];
  if (external_url && isLongerThan(external_url, MAX_TEXT)) problems.external_url = [tooLong(MAX_TEXT)];
  else if (external_url && !isWebAddress(external_url))
    problems.external_url = ['is blocked: Only allowed schemes are http, https'];
  if (isLongerThan(description ?? '', MAX_DESCRIPTION)) problems.description = [tooLong(MAX_DESCRIPTION)];
  return problems;
};
