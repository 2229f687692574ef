import { z } from 'zod';

const levels = z
  .array(z.object({ access_level: z.union([z.literal(0), z.literal(30), z.literal(40), z.literal(60)]) }))
  .max(10);

/** How the default branch of new projects is protected (specification 3 §2.1). */
export const protectionDefaults = z.object({
  allowed_to_push: levels.default([{ access_level: 40 }]),
  allow_force_push: z.boolean().default(false),
  allowed_to_merge: levels.default([{ access_level: 40 }]),
  developer_can_initial_push: z.boolean().default(false),
  code_owner_approval_required: z.boolean().default(false),
});

export type ProtectionDefaults = z.output<typeof protectionDefaults>;

export interface Protection {
  readonly allowed_to_push: readonly { readonly access_level: number }[];
  readonly allow_force_push: boolean;
  readonly allowed_to_merge: readonly { readonly access_level: number }[];
  readonly developer_can_initial_push: boolean;
  readonly code_owner_approval_required: boolean;
}

const protection = (push: number, merge: number, allow_force_push = false, developer_can_initial_push = false) =>
  ({
    allowed_to_push: [{ access_level: push }],
    allow_force_push,
    allowed_to_merge: [{ access_level: merge }],
    developer_can_initial_push,
    code_owner_approval_required: false,
  }) satisfies Protection;

const FULL_PROTECTION = 2;
/** The older numeric form: none, partial, full, against pushes, full after the first push. */
const PROTECTION_LEVELS: readonly Protection[] = [
  protection(30, 30, true),
  protection(30, 30),
  protection(40, 40),
  protection(40, 30),
  protection(40, 30, false, true),
];

export const protectionOfLevel = (level: number): Protection | null => PROTECTION_LEVELS[level] ?? null;

/** Replaces the number `default_branch_protection` (specification 3 §9). */
export const PROTECTION_DEFAULTS = { replacedBy: 'default_branch_protection_defaults' };

/** Returns `default_branch_protection` for the object form; full if no number matches exactly. */
export const protectionLevel = (defaults: Protection): number => {
  const index = PROTECTION_LEVELS.findIndex(
    (each) =>
      lowest(each.allowed_to_push) === lowest(defaults.allowed_to_push) &&
      lowest(each.allowed_to_merge) === lowest(defaults.allowed_to_merge) &&
      each.allow_force_push === defaults.allow_force_push &&
      each.developer_can_initial_push === defaults.developer_can_initial_push,
  );
  return index < 0 ? FULL_PROTECTION : index;
};

const lowest = (levels: Protection['allowed_to_push']): number => Math.min(...levels.map((each) => each.access_level));
