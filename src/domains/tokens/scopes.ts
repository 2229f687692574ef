/** Describes each scope (conventions §5) for the user who is asked to allow it. */
const WORDS: ReadonlyMap<string, string> = new Map([
  ['api', 'Do everything that you may do through the API: read, change and delete, in all your groups and projects'],
  ['read_api', 'Read everything that you may read through the API, in all your groups and projects'],
  ['read_user', 'Read your profile, including your e-mail address, and the profiles of other users'],
  ['read_repository', 'Download the code of your repositories'],
  ['write_repository', 'Download the code of your repositories and push to them'],
  ['create_runner', 'Register runners'],
  ['k8s_proxy', 'Reach your Kubernetes clusters through the proxy'],
  ['self_rotate', 'Replace itself with a new token'],
  ['sudo', 'Act as any other user'],
  ['admin_mode', 'Do what only administrators may do'],
  ['openid', 'Sign you in and learn who you are'],
  ['profile', 'Read your name, user name, picture and profile address, and which groups you are in'],
  ['email', 'Read your e-mail address'],
]);

/**
 * Describes the scope: `read_repository` is "Download the code of your repositories". Returns an unknown scope
 * unchanged.
 */
export const scopeInWords = (scope: string): string => WORDS.get(scope) ?? scope;
