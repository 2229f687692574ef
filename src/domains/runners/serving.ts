import { type RawBuilder, sql } from 'kysely';

/**
 * Whether runners of the instance take jobs of the project `p` in the namespace `n`: the project allows it, and no group
 * above forbids it for all of its projects.
 */
export const INSTANCE_RUNNERS_SERVE: RawBuilder<boolean> = sql<boolean>`(p.shared_runners_enabled and not exists (
  select from namespaces above
  where above.id = any (n.traversal_ids) and above.shared_runners_setting = 'disabled_and_unoverridable'))`;
