import { builder } from '#graphql/builder.ts';
import {
  DEVELOPER,
  FEATURE_LEVELS,
  GUEST,
  MAINTAINER,
  MINIMAL,
  NO_ACCESS,
  OWNER,
  PLANNER,
  REPORTER,
  VISIBILITIES,
} from './model.ts';

/** Roles by name. Input values resolve to their numbers. */
export const AccessLevelEnum = builder.enumType('AccessLevelEnum', {
  description: 'A role of a member.',
  values: {
    NO_ACCESS: { value: NO_ACCESS },
    MINIMAL_ACCESS: { value: MINIMAL },
    GUEST: { value: GUEST },
    PLANNER: { value: PLANNER },
    REPORTER: { value: REPORTER },
    DEVELOPER: { value: DEVELOPER },
    MAINTAINER: { value: MAINTAINER },
    OWNER: { value: OWNER },
  } as const,
});

const LEVELS = [NO_ACCESS, MINIMAL, GUEST, PLANNER, REPORTER, DEVELOPER, MAINTAINER, OWNER] as const;

/** A role with its number. Resolves from the number. */
export const AccessLevelRef = builder.objectRef<number>('AccessLevel').implement({
  description: 'A role, as a number and by name.',
  fields: (t) => ({
    integerValue: t.int({ resolve: (level) => level }),
    stringValue: t.field({
      type: AccessLevelEnum,
      resolve: (level) => LEVELS.find((each) => each === level) ?? NO_ACCESS,
    }),
  }),
});

export const VisibilityLevelsEnum = builder.enumType('VisibilityLevelsEnum', {
  description: 'Who can see a project or group.',
  values: VISIBILITIES,
});

export const FeatureLevelEnum = builder.enumType('FeatureAccessLevel', {
  description: 'Who can use a feature of a project or group: nobody, members, or everyone who can see it.',
  values: FEATURE_LEVELS,
});
