import { text } from '#rest/params.ts';

/** The parameter that applications send beside a change of how somebody comes in. */
export const currentPassword = () =>
  text({ max: 128 })
    .optional()
    .describe(
      'Needed from OAuth applications, and with what they made: the password of the person who let the application in. Belongs in the body, not into the query.',
    );
