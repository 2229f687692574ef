import { type RawBuilder, sql } from 'kysely';
import { DEVELOPER, GUEST, MAINTAINER, OWNER, PLANNER, REPORTER } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, notFound, unauthenticated } from '#platform/errors.ts';
import type { ProjectRow } from './model.ts';

type Feature =
  | 'issues_access_level'
  | 'repository_access_level'
  | 'merge_requests_access_level'
  | 'builds_access_level'
  | 'snippets_access_level'
  | 'wiki_access_level'
  | 'forking_access_level';

interface Rule {
  /** The lowest role of a member. */
  readonly role: number;
  /**
   * Access without membership to an open project (public, or internal for callers who are not external): everyone, or
   * every signed-in caller.
   */
  readonly open?: 'anyone' | 'signed_in';
  /** The caller must be able to use all of these features. */
  readonly features?: readonly Feature[];
  /** At least one of these. */
  readonly anyFeature?: readonly Feature[];
  /**
   * Changes the content, so it is refused in a project that is archived or marked for deletion. Members, settings,
   * protection and hooks can still be changed, as on existing servers.
   */
  readonly writes?: true;
  /** Changes something beside the content. Being allowed to read the project as an auditor is not enough. */
  readonly acts?: true;
}

const ISSUES = ['issues_access_level'] as const;
const CODE = ['repository_access_level'] as const;
const FORKING = ['forking_access_level', 'repository_access_level'] as const;
const REVIEW = ['merge_requests_access_level', 'repository_access_level'] as const;
const BUILDS = ['builds_access_level', 'repository_access_level'] as const;
const PLANNING = ['issues_access_level', 'merge_requests_access_level'] as const;

/** The lowest role for a feature that is limited to members. */
export const MEMBERS_ROLES = {
  issues_access_level: GUEST,
  repository_access_level: REPORTER,
  merge_requests_access_level: REPORTER,
  builds_access_level: REPORTER,
  snippets_access_level: GUEST,
  wiki_access_level: GUEST,
  forking_access_level: GUEST,
} as const satisfies Record<Feature, number>;

/** The role that each action in a project needs (reference: conventions §6, §7). */
const rules = {
  read_project: { role: GUEST, open: 'anyone' },
  read_code: { role: REPORTER, open: 'anyone', features: CODE },
  fork_project: { role: REPORTER, open: 'signed_in', features: FORKING, acts: true },
  star_project: { role: GUEST, open: 'signed_in', acts: true },
  push_code: { role: DEVELOPER, features: CODE, writes: true },
  read_issue: { role: GUEST, open: 'anyone', features: ISSUES },
  create_issue: { role: GUEST, open: 'signed_in', features: ISSUES, writes: true },
  admin_issue: { role: PLANNER, features: ISSUES, writes: true },
  read_confidential_issue: { role: PLANNER, features: ISSUES },
  remove_issue: { role: OWNER, features: ISSUES, writes: true },
  read_label: { role: GUEST, open: 'anyone', anyFeature: PLANNING },
  admin_label: { role: PLANNER, anyFeature: PLANNING, writes: true },
  read_milestone: { role: GUEST, open: 'anyone', anyFeature: PLANNING },
  admin_milestone: { role: PLANNER, anyFeature: PLANNING, writes: true },
  create_note: { role: GUEST, open: 'signed_in', writes: true },
  admin_note: { role: MAINTAINER, writes: true },
  read_merge_request: { role: REPORTER, open: 'anyone', features: REVIEW },
  create_merge_request: { role: DEVELOPER, features: REVIEW, writes: true },
  /** From a branch of a fork: everyone who can read the code can propose changes to it. */
  create_merge_request_in: { role: REPORTER, open: 'signed_in', features: REVIEW, writes: true },
  admin_merge_request: { role: DEVELOPER, features: REVIEW, writes: true },
  remove_merge_request: { role: OWNER, features: REVIEW, writes: true },
  read_pipeline: { role: REPORTER, open: 'anyone', features: BUILDS },
  create_pipeline: { role: DEVELOPER, features: BUILDS, writes: true },
  admin_pipeline: { role: DEVELOPER, features: BUILDS, writes: true },
  destroy_artifacts: { role: MAINTAINER, features: BUILDS, writes: true },
  remove_pipeline: { role: OWNER, features: BUILDS, writes: true },
  read_release: { role: GUEST, open: 'anyone', features: CODE },
  admin_release: { role: DEVELOPER, features: CODE, writes: true },
  read_snippet: { role: GUEST, open: 'anyone', features: ['snippets_access_level'] },
  read_wiki: { role: GUEST, open: 'anyone', features: ['wiki_access_level'] },
  read_member: { role: GUEST, open: 'signed_in' },
  request_access: { role: GUEST, open: 'signed_in', writes: true },
  upload_file: { role: GUEST, writes: true },
  admin_uploads: { role: MAINTAINER },
  read_statistics: { role: REPORTER },
  read_protected_branch: { role: DEVELOPER },
  export: { role: MAINTAINER },
  import_members: { role: MAINTAINER },
  import_relation: { role: MAINTAINER, writes: true },
  admin_member: { role: MAINTAINER },
  admin_project: { role: MAINTAINER },
  update_settings: { role: MAINTAINER },
  admin_protected_branch: { role: MAINTAINER },
  admin_hook: { role: MAINTAINER },
  admin_push_rule: { role: MAINTAINER },
  admin_cicd_variables: { role: MAINTAINER },
  admin_trigger: { role: MAINTAINER, features: BUILDS },
  admin_error_tracking: { role: MAINTAINER },
  read_error: { role: REPORTER },
  update_error: { role: DEVELOPER, writes: true },
  read_approval_rule: { role: REPORTER, open: 'signed_in', features: REVIEW },
  admin_approval_rule: { role: MAINTAINER },
  read_runners_token: { role: MAINTAINER },
  admin_share: { role: MAINTAINER },
  create_runner: { role: OWNER },
  admin_runner: { role: MAINTAINER },
  change_visibility: { role: OWNER },
  archive_project: { role: OWNER },
  admin_fork_relation: { role: OWNER },
  rename_project: { role: MAINTAINER },
  housekeeping: { role: OWNER },
  transfer_project: { role: OWNER },
  remove_project: { role: OWNER },
} as const satisfies Record<string, Rule>;

export type ProjectAbility = keyof typeof rules;

/** The columns that `can` reads. */
export const POLICY_COLUMNS = [
  'visibility_level',
  'archived',
  'marked_for_deletion_on',
  'public_jobs',
  'issues_access_level',
  'repository_access_level',
  'merge_requests_access_level',
  'builds_access_level',
  'snippets_access_level',
  'wiki_access_level',
  'forking_access_level',
] as const;

/** The parts of a project that `can` needs. */
export type JudgedProject = Pick<ProjectRow, (typeof POLICY_COLUMNS)[number] | 'access_level'>;

/**
 * Returns true if the caller has the ability in the project. The caller can see the project (`getProject` has checked).
 */
export const can = ({ actor }: Pick<Context, 'actor'>, project: JudgedProject, ability: ProjectAbility): boolean => {
  const rule: Rule = rules[ability];
  if (!hasFeatures(project, rule)) return false;
  if (rule.writes && (project.archived || project.marked_for_deletion_on !== null)) return false;
  if (project.access_level >= rule.role) return true;
  const use = rule.writes || rule.acts ? 'write' : 'read';
  if (rule.open === undefined || project.visibility_level < openFrom(actor, use)) return false;
  if (!hasOpenFeatures(project, rule)) return false;
  // Pipelines of open projects may be limited to members who can read the code.
  if (ability === 'read_pipeline' && !project.public_jobs) return false;
  return rule.open === 'anyone' || actor.userId !== null;
};

/** The person an ability is checked for, as SQL expressions. */
export interface PersonInSql {
  /** Their role in the project, 0 for none. */
  readonly level: RawBuilder<number>;
  /** Projects of this visibility and above are open to them (`openFrom`). */
  readonly openFrom: RawBuilder<number>;
}

/** `can` as SQL over the project row `alias`, which the person may see. Only for abilities that neither write nor ask for a sign-in. */
export const canRead = (ability: ProjectAbility, { level, openFrom }: PersonInSql, alias: string) => {
  const rule: Rule = rules[ability];
  if (rule.writes || rule.open === 'signed_in')
    throw new Error(`${ability} is not a read ability that is open to anyone`);
  const column = (name: string) => sql.ref(`${alias}.${name}`);
  const there = (feature: Feature) =>
    sql<boolean>`(${column(feature)} = 'enabled' or (${column(feature)} = 'private' and ${level} >= ${sql.lit(GUEST)}))`;
  const isFeatureOpen = (feature: Feature) =>
    sql<boolean>`(${column(feature)} = 'enabled' or ${level} >= ${sql.lit(MEMBERS_ROLES[feature])})`;
  const features = (holds: (feature: Feature) => RawBuilder<boolean>) => [
    ...(rule.features ?? []).map(holds),
    ...(rule.anyFeature ? [sql<boolean>`(${sql.join(rule.anyFeature.map(holds), sql` or `)})`] : []),
  ];
  const open = [sql<boolean>`${column('visibility_level')} >= ${openFrom}`, ...features(isFeatureOpen)];
  if (ability === 'read_pipeline') open.push(sql<boolean>`${column('public_jobs')}`);
  const granted = sql<boolean>`${level} >= ${sql.lit(rule.role)}`;
  const conditions = features(there);
  conditions.push(rule.open ? sql<boolean>`(${granted} or (${sql.join(open, sql` and `)}))` : granted);
  return sql<boolean>`(${sql.join(conditions, sql` and `)})`;
};

/**
 * @throws DomainError `not_found` if the feature is hidden from the caller, `unauthenticated` for anonymous callers who
 *   could do it after signing in, otherwise `forbidden`
 */
export const requireAbility = (ctx: Pick<Context, 'actor'>, project: JudgedProject, ability: ProjectAbility): void => {
  if (can(ctx, project, ability)) return;
  const rule: Rule = rules[ability];
  if (!hasFeatures(project, rule)) throw notFound();
  if (ctx.actor.userId === null && !ctx.actor.isSystem) throw unauthenticated();
  throw forbidden();
};

const hasFeatures = (project: JudgedProject, rule: Rule): boolean =>
  (rule.features ?? []).every((feature) => isThere(project, feature)) &&
  (rule.anyFeature === undefined || rule.anyFeature.some((feature) => isThere(project, feature)));

/** Returns true if the rule's features are as open to the caller as the project itself. */
const hasOpenFeatures = (project: JudgedProject, rule: Rule): boolean =>
  (rule.features ?? []).every((feature) => isOpen(project, feature)) &&
  (rule.anyFeature === undefined || rule.anyFeature.some((feature) => isOpen(project, feature)));

const isOpen = (project: JudgedProject, feature: Feature): boolean =>
  project[feature] === 'enabled' || project.access_level >= MEMBERS_ROLES[feature];

/**
 * Returns true if the caller may know of the feature. Disabled features are hidden from everyone, private ones from
 * non-members.
 */
const isThere = (project: JudgedProject, feature: Feature): boolean => {
  const level = project[feature];
  return level !== 'disabled' && (level !== 'private' || project.access_level >= GUEST);
};
