import type { Types } from '#graphql/builder.ts';

/** The input that applications send beside a change of how somebody comes in. */
export const currentPassword = (t: PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>) =>
  t.string({
    description:
      'Needed from OAuth applications, and with what they made: the password of the person who let the application in.',
  });
