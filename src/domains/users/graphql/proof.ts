import type { Types } from '#graphql/builder.ts';

/** The extra input for OAuth applications that change how somebody signs in. */
export const currentPassword = (t: PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>) =>
  t.string({
    description:
      'The password of the user who authorised the application. Required from OAuth applications, and with credentials that they created.',
  });
