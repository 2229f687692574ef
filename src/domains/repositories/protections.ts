import { sql } from 'kysely';
import { DEVELOPER } from '#domains/access/model.ts';
import { namespacesOf } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import { matchesPattern } from './model.ts';

export type ProtectionAction = 'push' | 'merge' | 'unprotect' | 'create';

interface ProtectionLevel {
  readonly id: number;
  readonly action: string;
  readonly access_level: number | null;
  readonly user_id: number | null;
  readonly group_id: number | null;
}

/** A protected branch or tag. The name may contain wildcards. */
export interface Protection {
  readonly id: number;
  readonly name: string;
  readonly allow_force_push: boolean;
  /** Whether code owners must approve what they own. False for tags. */
  readonly code_owner_approval_required: boolean;
  readonly levels: readonly ProtectionLevel[];
}

export interface Protections {
  readonly branches: readonly Protection[];
  readonly tags: readonly Protection[];
  /** The groups named by a level in which the caller is at least Developer. */
  readonly callersGroups: ReadonlySet<number>;
}

/** Access levels besides the roles. */
export const NO_ONE = 0;
export const ADMINISTRATOR = 60;

/** Reads all protections of a project and the caller's groups. Call it once per push or page of branches. */
export const readProtections = async (ctx: Context, projectId: number): Promise<Protections> =>
  (await protectionsByProjects(ctx, [projectId])).get(projectId) ?? UNPROTECTED;

const UNPROTECTED: Protections = { branches: [], tags: [], callersGroups: new Set() };

/** Reads the same for many projects. Projects without protections are included. */
export const protectionsByProjects = async (
  ctx: Context,
  projectIds: readonly number[],
): Promise<ReadonlyMap<number, Protections>> => {
  const { rows } = await sql<Protection & { project_id: number; kind: 'branch' | 'tag'; callers_groups: number[] }>`
    with rules as (
      select 'branch' as kind, b.project_id, b.id, b.name, b.allow_force_push,
        b.code_owner_approval_required,
        coalesce((select jsonb_agg(jsonb_build_object('id', l.id, 'action', l.action, 'access_level', l.access_level,
            'user_id', l.user_id, 'group_id', l.group_id) order by l.id)
          from protection_levels l where l.protected_branch_id = b.id), '[]') as levels
      from protected_branches b where b.project_id = any (${projectIds}::bigint[])
      union all
      select 'tag', t.project_id, t.id, t.name, false, false,
        coalesce((select jsonb_agg(jsonb_build_object('id', l.id, 'action', l.action, 'access_level', l.access_level,
            'user_id', l.user_id, 'group_id', l.group_id) order by l.id)
          from protection_levels l where l.protected_tag_id = t.id), '[]')
      from protected_tags t where t.project_id = any (${projectIds}::bigint[])
    )
    select rules.*, array(
      select distinct l.group_id from protection_levels l
      where (l.protected_branch_id = rules.id and rules.kind = 'branch' or l.protected_tag_id = rules.id and rules.kind = 'tag')
        and l.group_id is not null and l.group_id in ${namespacesOf({ ...ctx.actor, userId: ctx.actor.userId ?? 0 }, DEVELOPER)}) as callers_groups
    from rules order by kind, name`.execute(ctx.db);
  const byProject = Map.groupBy(rows, (row) => row.project_id);
  return new Map(
    projectIds.map((id): [number, Protections] => {
      const own = byProject.get(id);
      if (!own) return [id, UNPROTECTED];
      const branches = own.filter((row) => row.kind === 'branch');
      const tags = own.filter((row) => row.kind === 'tag');
      return [id, { branches, tags, callersGroups: new Set(own.flatMap((row) => row.callers_groups)) }];
    }),
  );
};

/** A function that reads the protections of a project, alone or batched with other projects. */
export type ReadProtections = typeof readProtections;

export const matching = (rules: readonly Protection[], name: string): readonly Protection[] =>
  rules.filter((rule) => matchesPattern(rule.name, name));

/**
 * Returns whether one of the rules allows the action. If several rules match a name, the most permissive one counts.
 */
export const isGranted = (
  ctx: Pick<Context, 'actor'>,
  accessLevel: number,
  rules: readonly Protection[],
  action: ProtectionAction,
  callersGroups: ReadonlySet<number>,
): boolean =>
  ctx.actor.isSystem ||
  rules.some((rule) =>
    rule.levels.some((level) => {
      if (level.action !== action) return false;
      if (level.user_id !== null) return level.user_id === ctx.actor.userId;
      if (level.group_id !== null) return callersGroups.has(level.group_id);
      if (level.access_level === null || level.access_level === NO_ONE) return false;
      return level.access_level === ADMINISTRATOR ? ctx.actor.isAdmin : accessLevel >= level.access_level;
    }),
  );

/** Returns whether the rules allow the action to the Developer role. */
export const developersMay = (rules: readonly Protection[], action: ProtectionAction): boolean =>
  rules.some((rule) => rule.levels.some((level) => level.action === action && level.access_level === DEVELOPER));

/** Returns whether a protection rule of the project matches the branch or tag. */
export const isProtectedRef = async (
  ctx: Context,
  project: { readonly id: number },
  { name, tag }: { readonly name: string; readonly tag: boolean },
): Promise<boolean> => {
  const { branches, tags } = await readProtections(ctx, project.id);
  return matching(tag ? tags : branches, name).length > 0;
};
