import { tooLong } from '#platform/errors.ts';

/**
 * Path prefixes that the hub itself serves, and some that proxies and browsers request. No user or top-level group may
 * use one as its name. Compared case-insensitively.
 */
const RESERVED_TOP_LEVEL_PATHS: ReadonlySet<string> = new Set([
  '-',
  '.well-known',
  '404.html',
  '422.html',
  '500.html',
  '502.html',
  '503.html',
  'abuse_reports',
  'admin',
  'api',
  'apple-touch-icon.png',
  'assets',
  'autocomplete',
  'dashboard',
  'explore',
  'favicon.ico',
  'favicon.png',
  'files',
  'groups',
  'health_check',
  'help',
  'import',
  'jwt',
  'login',
  'metrics',
  'oauth',
  'profile',
  'projects',
  'public',
  'robots.txt',
  's',
  'search',
  'sitemap',
  'sitemap.xml',
  'snippets',
  'unsubscribes',
  'uploads',
  'users',
  'v2',
]);

const MAX_LENGTH = 255;
const SHAPE = /^[A-Za-z0-9_.][A-Za-z0-9_.-]*$/;
const RULE =
  "can contain only letters, digits, '_', '-' and '.'. Cannot start with '-' or end in '.', '.git' or '.atom'.";

/** Returns the problems with one segment of a namespace path (a user name or group path). Empty when there are none. */
export const namespacePathProblems = (path: string, options: { readonly topLevel: boolean }): string[] => {
  if (path === '') return ["can't be blank"];
  const problems: string[] = [];
  if (path.length > MAX_LENGTH) problems.push(tooLong(MAX_LENGTH));
  const lower = path.toLowerCase();
  // This also refuses `.` and `..`, which end in a dot.
  if (!SHAPE.test(path) || /\.(git|atom)?$/.test(lower)) problems.push(RULE);
  else if (options.topLevel && RESERVED_TOP_LEVEL_PATHS.has(lower)) problems.push('is a reserved name');
  return problems;
};
