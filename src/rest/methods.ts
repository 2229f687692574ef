import type { Route } from './route.ts';

/**
 * Finds the methods that there are at a path (as sent, without its query), for `Allow`; none at a path that nothing is
 * at. It looks at addresses alone: whether there is such a project, say, does not come into it.
 */
export const methodsByPath = (routes: readonly Route[]): ((path: string) => readonly string[]) => {
  const methods = new Map<string, Set<string>>();
  for (const { url, method } of routes) {
    const pattern = url
      .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
      .replace(/:\w+/g, '[^/]+')
      .replace(/\*\w*$/, '.+');
    const known = methods.get(pattern) ?? new Set();
    known.add(method);
    if (method === 'GET') known.add('HEAD');
    methods.set(pattern, known);
  }
  const patterns = [...methods].map(([pattern, known]) => [new RegExp(`^${pattern}/?$`), known] as const);
  return (path) => [...new Set(patterns.flatMap(([pattern, known]) => (pattern.test(path) ? [...known] : [])))].sort();
};
