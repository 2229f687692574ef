import type { ArchiveFile } from '#domains/projects/archive.ts';
import { approvalRules } from './approval-rules.ts';
import { customAttributes } from './custom-attributes.ts';
import { issues } from './issues.ts';
import { projectMembers } from './members.ts';
import { mergeRequests } from './merge-requests.ts';
import { ciPipelines, commitNotes } from './pipelines.ts';
import { labels, milestones } from './planning.ts';
import { protectedBranches, protectedTags } from './protections.ts';
import type { Relation } from './relation.ts';
import { releases } from './releases.ts';
import { pipelineSchedules } from './schedules.ts';
import { snippets } from './snippets.ts';
import { triggers } from './triggers.ts';

/** All relations, in the order of the import: a relation comes after those it refers to. */
export const RELATIONS: readonly Relation[] = [
  labels,
  milestones,
  issues,
  snippets,
  releases,
  projectMembers,
  protectedBranches,
  approvalRules,
  mergeRequests,
  commitNotes,
  ciPipelines,
  pipelineSchedules,
  triggers,
  protectedTags,
  customAttributes,
];

/** Files with one line of project settings. */
export const SETTING_FILES = [
  'project_feature',
  'ci_cd_settings',
  'auto_devops',
  'container_expiration_policy',
] as const satisfies readonly ArchiveFile[];

/** Further files with one line, which belong to other domains. */
export const FURTHER_FILES = ['push_rule', 'error_tracking_setting'] as const;
