import { invalid } from '#platform/errors.ts';
import { type ContainerExpirationPolicy, coerce, containerExpirationPolicy, problemOf } from './attributes.ts';

/** Changes to the policy. Absent keys stay as they are. */
export type PolicyChanges = Partial<Omit<ContainerExpirationPolicy, 'next_run_at'>>;

const { next_run_at: _, ...writable } = containerExpirationPolicy.shape;
const DEFAULTS = containerExpirationPolicy.parse({});

/**
 * Reads `container_expiration_policy_attributes` from a client. @throws DomainError `invalid`, naming each invalid
 * value
 */
export const readPolicyChanges = (given: Readonly<Record<string, unknown>>): PolicyChanges => {
  const sent: Readonly<Record<string, unknown>> = { name_regex: given.name_regex_delete, ...given };
  const found: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, schema] of Object.entries(writable)) {
    if (sent[name] === undefined) continue;
    // Forms send an empty string for "none".
    const value = sent[name] === '' ? null : coerce(sent[name], schema.unwrap());
    const parsed = schema.unwrap().safeParse(value);
    if (parsed.success) found[name] = parsed.data;
    else problems.push(...parsed.error.issues.map((issue) => `${name} ${problemOf(issue)}`));
  }
  if (problems.length > 0) throw invalid({ container_expiration_policy: problems });
  return found;
};

/**
 * Returns the project's new policy: the current or default one, replaced by `whole` if given, with the changes applied.
 * `next_run_at` is derived from it.
 */
export const nextPolicy = (
  now: Date,
  before: ContainerExpirationPolicy | null,
  whole: ContainerExpirationPolicy | undefined,
  changes: PolicyChanges | undefined,
): ContainerExpirationPolicy | undefined => {
  if (!whole && !changes) return undefined;
  const policy = { ...(whole ?? before ?? DEFAULTS), ...changes };
  const isSame = before?.enabled && before.cadence === policy.cadence && before.next_run_at !== null;
  return {
    ...policy,
    next_run_at: !policy.enabled ? null : isSame ? before.next_run_at : nextRun(now, policy.cadence),
  };
};

const DAYS: Readonly<Record<string, number>> = { '1d': 1, '7d': 7, '14d': 14 };
const MONTHS: Readonly<Record<string, number>> = { '1month': 1, '3month': 3 };

const nextRun = (now: Date, cadence: ContainerExpirationPolicy['cadence']): string => {
  const at = new Date(now);
  at.setUTCDate(at.getUTCDate() + (DAYS[cadence] ?? 0));
  at.setUTCMonth(at.getUTCMonth() + (MONTHS[cadence] ?? 0));
  return at.toISOString();
};
