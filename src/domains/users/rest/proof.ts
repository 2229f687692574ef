import { text } from '#rest/params.ts';

/** The extra parameter for OAuth applications that change how somebody signs in. */
export const currentPassword = () =>
  text({ max: 128 })
    .optional()
    .describe(
      'The password of the user who authorised the application. Required from OAuth applications, and with credentials that they created. Send it in the body, not in the query.',
    );
