/**
 * First parts of the hub's own addresses, and some that proxies and browsers ask for: no user or top-level group may
 * be called so. Compared without regard to case.
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

/** What is wrong with one part of a namespace's path (a user name, a group's path); empty when nothing is. */
export const namespacePathProblems = (path: string, options: { readonly topLevel: boolean }): string[] => {
  if (path === '') return ["can't be blank"];
  const problems: string[] = [];
  if (path.length > MAX_LENGTH) problems.push(`is too long (maximum is ${MAX_LENGTH} characters)`);
  const lower = path.toLowerCase();
  // `.` and `..` end in a dot.
  if (!SHAPE.test(path) || /\.(git|atom)?$/.test(lower)) problems.push(RULE);
  else if (options.topLevel && RESERVED_TOP_LEVEL_PATHS.has(lower)) problems.push('is a reserved name');
  return problems;
};
