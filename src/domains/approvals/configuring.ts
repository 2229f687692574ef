import { sql } from 'kysely';
import { differences } from '#domains/planning/changes.ts';
import { type Container, ownerColumns } from '#domains/planning/container.ts';
import { updateProject } from '#domains/projects/commands.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { approvalSettingsUpdated } from './events.ts';
import { type ApprovalSettings, SETTING_NAMES, type Setting } from './model.ts';
import { lockForAdministration, requireAdministration, settingsAudience } from './policy.ts';
import { defaultsOf, type GovernedSettings, governedSettings } from './settings.ts';

/** Absent settings stay unchanged. */
export type SettingChanges = { readonly [K in Setting]?: boolean | undefined };

/**
 * Changes settings of a group or project, and returns what holds. `nameOf` names a setting in errors as the interface
 * calls it.
 *
 * @throws DomainError `unauthenticated`, `forbidden`, `invalid` for a setting that a group above restricts, and for
 * `selective_code_owner_removals` while a push removes all approvals
 */
export const updateApprovalSettings = (
  ctx: Context,
  given: Container,
  changes: SettingChanges,
  nameOf: (setting: Setting) => string = (setting) => setting,
): Promise<GovernedSettings> => {
  requireAdministration(ctx, given);
  return ctx.transaction(async (tx) => {
    const container = await lockForAdministration(tx, given);
    const governed = await governedSettings(tx, container);
    for (const name of SETTING_NAMES) {
      const { locked, value } = governed[name];
      if (locked && changes[name] === !value) throw invalid({ [nameOf(name)]: ['is restricted by a group above'] });
    }
    const columns = ownerColumns(container);
    const stored = await tx.db
      .selectFrom('approval_settings')
      .select(SETTING_NAMES)
      .where(
        container.kind === 'group' ? 'namespace_id' : 'project_id',
        '=',
        columns.namespace_id ?? columns.project_id,
      )
      .executeTakeFirst();
    const before = stored ?? defaultsOf(container);
    const after = settingsAfter(before, changes);
    if (changes.selective_code_owner_removals && (!after.retain_approvals_on_push || isLockedOff(governed))) {
      throw invalid({
        [nameOf('selective_code_owner_removals')]: ['needs approvals to be kept when commits are pushed'],
      });
    }
    const changed = differences(before, after);
    if (Object.keys(changed).length === 0) return governed;
    await tx.db
      .insertInto('approval_settings')
      .values({ ...columns, ...after })
      .onConflict((clash) =>
        clash
          .column(container.kind === 'group' ? 'namespace_id' : 'project_id')
          .doUpdateSet({ ...after, updated_at: sql`now()` }),
      )
      .execute();
    const type = container.kind === 'group' ? 'Group' : 'Project';
    const id = columns.namespace_id ?? columns.project_id;
    tx.emit(approvalSettingsUpdated, {
      ...settingsAudience(container),
      subject: { type, id },
      payload: { ...columns, changes: changed },
    });
    return governedSettings(tx, container);
  });
};

const isLockedOff = ({ retain_approvals_on_push: { locked, value } }: GovernedSettings): boolean => locked && !value;

/** A push that removes all approvals leaves none to remove selectively. */
const settingsAfter = (before: ApprovalSettings, changes: SettingChanges): ApprovalSettings => {
  const wanted = (name: Setting): boolean => changes[name] ?? before[name];
  const retain_approvals_on_push = wanted('retain_approvals_on_push');
  return {
    allow_author_approval: wanted('allow_author_approval'),
    allow_committer_approval: wanted('allow_committer_approval'),
    allow_overrides_to_approver_list_per_merge_request: wanted('allow_overrides_to_approver_list_per_merge_request'),
    retain_approvals_on_push,
    selective_code_owner_removals: retain_approvals_on_push && wanted('selective_code_owner_removals'),
    require_reauthentication_to_approve: wanted('require_reauthentication_to_approve'),
  };
};

/**
 * Changes the approval settings of a project, and the deprecated number of approvals that its merge requests need
 * (specification 2 §4.3).
 *
 * @throws DomainError as `updateApprovalSettings`, `invalid` for a number that is not from 0 to 100
 */
export const configureProjectApprovals = (
  ctx: Context,
  given: ProjectRow,
  { approvals_before_merge, ...changes }: SettingChanges & { readonly approvals_before_merge?: number | undefined },
  nameOf: (setting: Setting) => string,
): Promise<{ readonly project: ProjectRow; readonly settings: GovernedSettings }> => {
  requireAdministration(ctx, { kind: 'project', project: given });
  return ctx.transaction(async (tx) => {
    const project =
      approvals_before_merge === undefined ? given : await updateProject(tx, given, { approvals_before_merge });
    return { project, settings: await updateApprovalSettings(tx, { kind: 'project', project }, changes, nameOf) };
  });
};
