import { sql } from 'kysely';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Container, ContainerKind } from '#domains/planning/container.ts';
import type { Context } from '#platform/context.ts';
import { type ApprovalSettings, GROUP_DEFAULTS, PROJECT_DEFAULTS, SETTING_NAMES, type Setting } from './model.ts';
import { requireAdministration, requireReading } from './policy.ts';

export interface GovernedSetting {
  /** The effective value, with the groups above taken into account. */
  readonly value: boolean;
  /** Whether a group above restricts it, so that it cannot be changed here. */
  readonly locked: boolean;
  readonly inherited_from: 'group' | null;
}
export type GovernedSettings = { readonly [K in Setting]: GovernedSetting };

type StoredSettings = ApprovalSettings & {
  readonly namespace_id: number | null;
  readonly project_id: number | null;
};

interface Placed {
  readonly id: number;
  readonly namespace: { readonly traversal_ids: readonly number[] };
}

/** Returns the settings of these projects as they hold, by project. */
export const settingsByProjects = async (
  ctx: Pick<Context, 'db'>,
  projects: readonly Placed[],
): Promise<ReadonlyMap<number, GovernedSettings>> => {
  const above = new Set(projects.flatMap(({ namespace }) => namespace.traversal_ids));
  const { ofProjects, ofGroups } = await readStored(
    ctx,
    projects.map(({ id }) => id),
    [...above],
  );
  return new Map(
    projects.map(({ id, namespace }) => [
      id,
      governed(ofProjects.get(id) ?? PROJECT_DEFAULTS, found(ofGroups, namespace.traversal_ids)),
    ]),
  );
};

/** Returns the settings of these groups as they hold, by group. */
const settingsByGroups = async (
  ctx: Pick<Context, 'db'>,
  groups: readonly Pick<GroupRow, 'id' | 'traversal_ids'>[],
): Promise<ReadonlyMap<number, GovernedSettings>> => {
  const { ofGroups } = await readStored(ctx, [], [...new Set(groups.flatMap(({ traversal_ids }) => traversal_ids))]);
  return new Map(
    groups.map(({ id, traversal_ids }) => [
      id,
      governed(
        ofGroups.get(id) ?? GROUP_DEFAULTS,
        found(
          ofGroups,
          traversal_ids.filter((each) => each !== id),
        ),
      ),
    ]),
  );
};

/** Returns the settings of these groups or projects by their ids. The caller checks permissions. */
export const settingsByIds =
  (kind: ContainerKind) =>
  async (ctx: Pick<Context, 'db'>, ids: readonly number[]): Promise<ReadonlyMap<number, GovernedSettings>> => {
    if (kind === 'group') {
      const groups = await ctx.db
        .selectFrom('namespaces')
        .select(['id', 'traversal_ids'])
        .where(sql<boolean>`id = any (${ids}::bigint[])`)
        .execute();
      return settingsByGroups(ctx, groups);
    }
    const projects = await ctx.db
      .selectFrom('projects as p')
      .innerJoin('namespaces as n', 'n.id', 'p.namespace_id')
      .select(['p.id', 'n.traversal_ids'])
      .where(sql<boolean>`p.id = any (${ids}::bigint[])`)
      .execute();
    return settingsByProjects(
      ctx,
      projects.map(({ id, traversal_ids }) => ({ id, namespace: { traversal_ids } })),
    );
  };

/** Returns the settings of one group or project as they hold. The caller checks permissions. */
export const governedSettings = async (ctx: Pick<Context, 'db'>, container: Container): Promise<GovernedSettings> =>
  (container.kind === 'group'
    ? (await settingsByGroups(ctx, [container.group])).get(container.group.id)
    : (await settingsByProjects(ctx, [container.project])).get(container.project.id)) ??
  governed(defaultsOf(container), []);

/**
 * Returns the settings of a group or project as they hold.
 *
 * @throws DomainError `not_found`, `unauthenticated`, `forbidden`
 */
export const getApprovalSettings = async (ctx: Context, container: Container): Promise<GovernedSettings> => {
  if (container.kind === 'group') requireAdministration(ctx, container);
  else requireReading(ctx, container);
  return governedSettings(ctx, container);
};

/** Returns the defaults of a group or project without settings of its own. */
export const defaultsOf = ({ kind }: Container): ApprovalSettings =>
  kind === 'group' ? GROUP_DEFAULTS : PROJECT_DEFAULTS;

/** Returns what holds, without where it comes from. */
export const valuesOf = (settings: GovernedSettings): ApprovalSettings => ({
  allow_author_approval: settings.allow_author_approval.value,
  allow_committer_approval: settings.allow_committer_approval.value,
  allow_overrides_to_approver_list_per_merge_request: settings.allow_overrides_to_approver_list_per_merge_request.value,
  retain_approvals_on_push: settings.retain_approvals_on_push.value,
  selective_code_owner_removals: settings.selective_code_owner_removals.value,
  require_reauthentication_to_approve: settings.require_reauthentication_to_approve.value,
});

const found = <T>(known: ReadonlyMap<number, T>, ids: readonly number[]): readonly T[] =>
  ids.flatMap((id) => known.get(id) ?? []);

const readStored = async ({ db }: Pick<Context, 'db'>, projectIds: readonly number[], groupIds: readonly number[]) => {
  const rows: readonly StoredSettings[] = await db
    .selectFrom('approval_settings')
    .select(['namespace_id', 'project_id', ...SETTING_NAMES])
    .where(sql<boolean>`(project_id = any (${projectIds}::bigint[]) or namespace_id = any (${groupIds}::bigint[]))`)
    .execute();
  return {
    ofProjects: new Map(rows.flatMap((row) => (row.project_id === null ? [] : [[row.project_id, row]]))),
    ofGroups: new Map(rows.flatMap((row) => (row.namespace_id === null ? [] : [[row.namespace_id, row]]))),
  };
};

/** A group that restricts a setting restricts everything below it. */
const governed = (own: ApprovalSettings, above: readonly ApprovalSettings[]): GovernedSettings => {
  const freedom = (name: Setting): GovernedSetting =>
    above.every((each) => each[name]) ? free(own[name]) : locked(false);
  const demand = (name: Setting): GovernedSetting =>
    above.some((each) => each[name]) ? locked(true) : free(own[name]);
  const retain_approvals_on_push = freedom('retain_approvals_on_push');
  return {
    allow_author_approval: freedom('allow_author_approval'),
    allow_committer_approval: freedom('allow_committer_approval'),
    allow_overrides_to_approver_list_per_merge_request: freedom('allow_overrides_to_approver_list_per_merge_request'),
    retain_approvals_on_push,
    // Has no meaning where a push removes all approvals.
    selective_code_owner_removals: retain_approvals_on_push.value
      ? demand('selective_code_owner_removals')
      : { ...retain_approvals_on_push, value: false },
    require_reauthentication_to_approve: demand('require_reauthentication_to_approve'),
  };
};

const free = (value: boolean): GovernedSetting => ({ value, locked: false, inherited_from: null });
const locked = (value: boolean): GovernedSetting => ({ value, locked: true, inherited_from: 'group' });
