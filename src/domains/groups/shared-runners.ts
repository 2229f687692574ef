import { type RawBuilder, sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import type { SHARED_RUNNERS_SETTINGS } from './model.ts';

// Whether a group and all below it use the runners of the instance. The rules are those of existing servers.

export type SharedRunnersSetting = (typeof SHARED_RUNNERS_SETTINGS)[number];

/** A row has the setting as text. */
interface Row {
  readonly shared_runners_setting: string;
}

/** @throws DomainError `invalid` if the parent keeps everything below it from this setting */
export const requireAllowedBelow = (parent: Row | null, setting: SharedRunnersSetting | undefined): void => {
  if (parent?.shared_runners_setting !== 'disabled_and_unoverridable') return;
  if (setting === undefined || setting === 'disabled_and_unoverridable') return;
  const reason = setting === 'enabled' ? 'parent group has shared Runners disabled' : 'parent group does not allow it';
  throw invalid({ shared_runners_setting: [`cannot be enabled because ${reason}`] });
};

/** Whether projects of the namespace can use the runners of the instance. */
const mayUse = (place: Row): boolean => place.shared_runners_setting !== 'disabled_and_unoverridable';

/** @throws DomainError `invalid` if a project of the namespace is to use the runners that its group keeps from it */
export const requireRunnersAllowed = (place: Row, wanted: boolean | undefined): void => {
  if (wanted === true && !mayUse(place))
    throw invalid({ shared_runners_enabled: ['cannot be enabled because parent group does not allow it'] });
};

/** Returns a value that nobody asked for explicitly, or `false` where the group keeps its projects from the runners. */
export const withinGroup = <T extends boolean | undefined>(place: Row, enabled: T): T | false =>
  mayUse(place) && enabled;

/** Returns whether a new project of the namespace uses the runners, if nobody says so. */
export const enabledByDefault = (place: Row, settings: { readonly shared_runners_enabled: boolean }): boolean =>
  place.shared_runners_setting === 'enabled' && settings.shared_runners_enabled;

const STRICTNESS: Readonly<Record<string, number>> = {
  enabled: 0,
  disabled_and_overridable: 1,
  disabled_and_unoverridable: 2,
};
const strictnessOf = ({ shared_runners_setting }: Row): number => STRICTNESS[shared_runners_setting] ?? 0;

/** Gives a group that moved the setting of its new parent if that is stricter, with everything below it. */
export const tightenBelow = async (tx: Tx, parent: Row, group: Row & { readonly id: number }): Promise<void> => {
  if (strictnessOf(parent) <= strictnessOf(group)) return;
  await sql`
    update namespaces set shared_runners_setting = ${parent.shared_runners_setting} where id = ${group.id}`.execute(
    tx.db,
  );
  await spreadSetting(tx, group, parent.shared_runners_setting);
};

/**
 * Applies the new setting of a group to everything below it: subgroups and projects are turned on or off with it. If the
 * group may be overridden again, nothing changes below it. The caller holds the lock of the tree.
 */
export const spreadSetting = async (
  tx: Tx,
  { id, shared_runners_setting: before }: Row & { readonly id: number },
  setting: string,
): Promise<void> => {
  if (setting === before) return;
  if (setting === 'disabled_and_overridable') {
    if (before !== 'enabled') return;
    await updateBelow(tx, id, 'disabled_and_unoverridable', sql`shared_runners_setting = 'enabled'`);
  } else {
    await updateBelow(tx, id, setting, sql`shared_runners_setting <> ${setting}`);
  }
  const isOn = setting === 'enabled';
  await sql`
    update projects p set shared_runners_enabled = ${isOn} from namespaces n
    where n.id = p.namespace_id and n.traversal_ids @> array[${id}::bigint] and p.shared_runners_enabled <> ${isOn}`.execute(
    tx.db,
  );
};

const updateBelow = async (tx: Tx, id: number, setting: string, which: RawBuilder<unknown>): Promise<void> => {
  await sql`
    update namespaces set shared_runners_setting = ${setting}
    where traversal_ids @> array[${id}::bigint] and id <> ${id} and ${which}`.execute(tx.db);
};
