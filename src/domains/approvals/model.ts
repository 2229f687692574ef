/** Rules that maintainers write, and those that the hub derives from code owners and reports (specification 2 §2.4). */
export const RULE_TYPES = ['any_approver', 'regular', 'code_owner', 'report_approver'] as const;
export type RuleType = (typeof RULE_TYPES)[number];

export const REPORT_TYPES = ['license_scanning', 'code_coverage'] as const;
export type ReportType = (typeof REPORT_TYPES)[number];

/** The names that rules of reports must have. */
export const REPORT_RULES = {
  license_scanning: 'License-Check',
  code_coverage: 'Coverage-Check',
} as const satisfies Record<ReportType, string>;

/** Replaces `require_password_to_approve` (specification 2 §9). */
export const REAUTHENTICATION = { replacedBy: 'require_reauthentication_to_approve' };

export const MAX_APPROVALS = 100;

/** A stored rule of a group, a project or a merge request, with the ids of its approvers. */
export interface ApprovalRule {
  readonly id: number;
  readonly namespace_id: number | null;
  readonly project_id: number | null;
  readonly merge_request_id: number | null;
  readonly name: string;
  readonly rule_type: RuleType;
  readonly report_type: ReportType | null;
  readonly approvals_required: number;
  readonly applies_to_all_protected_branches: boolean;
  /** For rules of merge requests: the rule of the project that it was copied from. */
  readonly source_rule_id: number | null;
  readonly user_ids: readonly number[];
  readonly group_ids: readonly number[];
  readonly protected_branch_ids: readonly number[];
}

/** The settings of a group or project, each true or false (reference: merge-requests §5). */
export const SETTINGS = {
  allow_author_approval: 'Authors can approve their own merge requests.',
  allow_committer_approval: 'People who committed to the source branch can approve.',
  allow_overrides_to_approver_list_per_merge_request: 'Merge requests can have rules of their own.',
  retain_approvals_on_push: 'Approvals are kept when commits are pushed.',
  selective_code_owner_removals: 'A push removes only the approvals of the code owners whose files it changes.',
  require_reauthentication_to_approve: 'Approvers enter their password.',
} as const;
export type Setting = keyof typeof SETTINGS;
export type ApprovalSettings = { readonly [K in Setting]: boolean };

const isSetting = (name: string): name is Setting => name in SETTINGS;
export const SETTING_NAMES: readonly Setting[] = Object.keys(SETTINGS).filter(isSetting);

/** Groups restrict nothing until somebody asks them to. */
export const GROUP_DEFAULTS: ApprovalSettings = {
  allow_author_approval: true,
  allow_committer_approval: true,
  allow_overrides_to_approver_list_per_merge_request: true,
  retain_approvals_on_push: true,
  selective_code_owner_removals: false,
  require_reauthentication_to_approve: false,
};

export const PROJECT_DEFAULTS: ApprovalSettings = {
  ...GROUP_DEFAULTS,
  allow_author_approval: false,
  retain_approvals_on_push: false,
};

/** The group, project or merge request that a rule belongs to. */
export type RuleOwner =
  | { readonly namespace_id: number }
  | { readonly project_id: number }
  | { readonly merge_request_id: number };

/** Returns whether people wrote the rule themselves, and may write another one for a merge request. */
export const isUserDefined = ({ rule_type }: Pick<ApprovalRule, 'rule_type'>): boolean =>
  rule_type === 'any_approver' || rule_type === 'regular';

/** Returns whether a rule of a merge request asks for something else than the rule that it was copied from. */
export const differsFrom = (rule: ApprovalRule, source: ApprovalRule): boolean =>
  (['name', 'approvals_required', 'user_ids', 'group_ids'] as const).some(
    (name) => String(rule[name]) !== String(source[name]),
  );
