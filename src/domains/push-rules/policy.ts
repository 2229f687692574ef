import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import { getPlace, type Place, type PlaceKind, requirePlaceAbility } from '#domains/planning/place.ts';
import { projectScope } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

/** The group or project of a push rule, as the caller names it. */
export interface PushRulePlace {
  readonly kind: PlaceKind;
  readonly id: IdOrPath;
}

/**
 * Returns the group or project if the caller may administer its push rule: owners of a group, maintainers of a project.
 *
 * @throws `not_found` (Group, Project), `forbidden`, `unauthenticated`
 */
export const getPushRulePlace = async (ctx: Context, { kind, id }: PushRulePlace): Promise<Place> => {
  const place = await getPlace(ctx, kind, id);
  requirePlaceAbility(ctx, place, 'admin_push_rule');
  return place;
};

/** Events of push rules are only for those who administer the rules. */
export const pushRuleScope = (place: Place, ruleId: number) => ({
  subject: { type: 'PushRule', id: ruleId },
  ...(place.kind === 'group' ? { namespace_ids: place.group.traversal_ids } : projectScope(place.project)),
  min_access_level: place.kind === 'group' ? OWNER : MAINTAINER,
});
