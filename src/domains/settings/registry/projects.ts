import { z } from 'zod';
import { VISIBILITIES } from '#domains/access/model.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { protectionDefaults, protectionLevel, protectionOfLevel } from '../protection.ts';
import { flag, idOrNull, setting, whole } from './define.ts';

/** Visibility, creation and deletion of projects and groups. */
export const projects = {
  default_project_visibility: setting(z.enum(VISIBILITIES).default('private'), 'Default visibility of new projects.'),
  default_group_visibility: setting(z.enum(VISIBILITIES).default('private'), 'Default visibility of new groups.'),
  default_snippet_visibility: setting(z.enum(VISIBILITIES).default('private'), 'Default visibility of new snippets.', {
    withoutEffect: true,
  }),
  restricted_visibility_levels: setting(
    z.array(z.enum(VISIBILITIES)).default([]),
    'Visibilities that only administrators can choose.',
  ),
  default_projects_limit: whole(
    0,
    1_000_000,
    100_000,
    'Number of projects that a new user can create in their personal namespace.',
  ),
  can_create_group: flag(true, 'Whether new users can create top-level groups.'),
  default_project_creation: whole(
    0,
    4,
    2,
    'Who can create projects in a new group, unless the group says otherwise (`project_creation_level`): 0 is nobody, 1 Maintainers, 2 Developers, 3 administrators, 4 Owners.',
  ),
  default_branch_name: setting(
    z.string().refine(validRefName, 'is not the name of a branch').default('main'),
    'Name of the initial branch of new projects.',
  ),
  default_branch_protection_defaults: setting(
    protectionDefaults.default(() => protectionDefaults.parse({})),
    'Protection of the default branch of new projects.',
    {
      otherForms: {
        default_branch_protection: {
          deprecated: true,
          schema: z.int().min(0).max(4),
          description: 'The same as a number from 0 (none) to 4.',
          toSetting: (level) => protectionOfLevel(Number(level)),
          fromSetting: (defaults) => protectionLevel(protectionDefaults.parse(defaults)),
        },
      },
    },
  ),
  group_owners_can_manage_default_branch_protection: flag(
    true,
    'Whether Owners can set how the default branches of new projects in their groups are protected. Administrators always can.',
  ),
  deletion_adjourned_period: whole(
    0,
    90,
    7,
    'Days after which a group that is marked for deletion is deleted. Until then it can be restored. 0 deletes at once.',
  ),
  default_project_deletion_protection: flag(
    false,
    'Whether only administrators can delete projects. Owners can still delete a group with its projects.',
  ),
  delete_inactive_projects: flag(
    false,
    'Whether projects without activity are deleted, after a warning by mail to their Owners. A job looks for them every night. Events count as activity, clones and fetches do not.',
  ),
  inactive_projects_delete_after_months: whole(
    2,
    1_200,
    2,
    'Months of inactivity after which a project is deleted. More than `inactive_projects_send_warning_email_after_months`. At least the difference of the two passes after the warning.',
    { above: 'inactive_projects_send_warning_email_after_months' },
  ),
  inactive_projects_min_size_mb: whole(
    0,
    2_147_483_647,
    0,
    'Smallest size of a project that is deleted for inactivity, in MiB: its repository, artifacts, uploads and everything else.',
  ),
  inactive_projects_send_warning_email_after_months: whole(
    1,
    1_199,
    1,
    'Months of inactivity after which the Owners of a project are warned that it will be deleted.',
  ),
  file_template_project_id: idOrNull('project', 'The project whose files are templates of new files in all projects.', {
    withoutEffect: true,
  }),
};
