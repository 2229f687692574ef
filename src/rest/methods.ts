import type { Route } from './route.ts';

/**
 * Returns a function that lists the methods of a path for `Allow`. The path is as sent, without its query. The list is
 * empty when no route matches. Only the path counts, not whether the resource exists.
 */
export const methodsByPath = (routes: readonly Route[]): ((path: string) => readonly string[]) => {
  // Few requests need them, so the start does not wait for hundreds of expressions.
  let patterns: readonly Pattern[] | null = null;
  return (path) => {
    patterns ??= patternsOf(routes);
    return [...new Set(patterns.flatMap(([pattern, known]) => (pattern.test(path) ? [...known] : [])))].sort();
  };
};

type Pattern = readonly [pattern: RegExp, methods: ReadonlySet<string>];

const patternsOf = (routes: readonly Route[]): readonly Pattern[] => {
  const methods = new Map<string, Set<string>>();
  for (const { url, method } of routes) {
    const pattern = url
      .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
      .replace(/:\w+/g, '[^/]+')
      .replace(/\*\w*/g, '.+');
    const known = methods.get(pattern) ?? new Set();
    known.add(method);
    if (method === 'GET') known.add('HEAD');
    methods.set(pattern, known);
  }
  return [...methods].map(([pattern, known]) => [new RegExp(`^${pattern}/?$`), known] as const);
};
