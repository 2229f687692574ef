import { hidden } from '#pages/html.ts';
import { localPath } from '#pages/local-path.ts';

// The page that a visitor wanted before they had to sign in. Every step passes it on.

/** An authorization may end with a redirect to the application, right after the sign-in. */
const AUTHORIZATION = '/oauth/authorize?';

/** Whether the user may be redirected to another host once they have signed in: see `ShowOptions.leadsAway`. */
export const leadsAway = (returnTo: string | undefined): boolean =>
  localPath(returnTo)?.startsWith(AUTHORIZATION) ?? false;

export const withReturn = (path: string, returnTo: string | undefined): string => {
  const target = localPath(returnTo);
  return target === null ? path : `${path}?return_to=${encodeURIComponent(target)}`;
};

export const returnField = (returnTo: string | undefined): string => {
  const target = localPath(returnTo);
  return target === null ? '' : hidden('return_to', target);
};
