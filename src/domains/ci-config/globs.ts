import { RE2JS } from 're2js';

const MAX_LENGTH = 1_000;
const SPECIAL = /[\\^$.|?*+()[\]{}]/g;

const escaped = (text: string): string => text.replaceAll(SPECIAL, '\\$&');

/**
 * Returns a test for paths, which runs in linear time: `*` and `?` stop at slashes, `**` between slashes crosses them,
 * `{a,b}` are alternatives, `[a-c]` and `[^a]` classes. Names may start with a dot. Null if the glob is too long or too
 * complex. Glob libraries make backtracking expressions, or expand `{a,b}{c,d}` to all combinations.
 */
export const compileGlob = (glob: string): ((path: string) => boolean) | null => {
  if (glob.length > MAX_LENGTH) return null;
  try {
    const compiled = RE2JS.compile(`^(?:${sourceOf(glob)})$`, RE2JS.DOTALL);
    return (path) => compiled.test(path);
  } catch {
    return null;
  }
};

/** Whether the path names one file, so that no glob is needed. */
export const isPlainPath = (path: string): boolean => !/[*?[\]{}\\]/.test(path);

const sourceOf = (glob: string): string => {
  let source = '';
  let braces = 0;
  const closing = closableBraces(glob);
  for (let at = 0; at < glob.length; at++) {
    const sign = glob[at] ?? '';
    if (sign === '*') {
      const stars = /^\*+/.exec(glob.slice(at))?.[0].length ?? 1;
      const startsPart = at === 0 || '/{,'.includes(glob[at - 1] ?? '');
      const next = glob[at + stars];
      at += stars - 1;
      if (stars < 2 || !startsPart) source += '[^/]*';
      else if (next === '/') {
        source += '(?:[^/]*/)*';
        at++;
      } else source += next === undefined || next === '}' || next === ',' ? '.*' : '[^/]*';
    } else if (sign === '?') source += '[^/]';
    else if (sign === '[') {
      const set = /^\[([!^]?)(\]?[^\]/]*)\]/.exec(glob.slice(at));
      if (set) {
        source += `[${set[1] ? '^/' : ''}${(set[2] ?? '').replaceAll(/[\\[\]^]/g, '\\$&')}]`;
        at += set[0].length - 1;
      } else source += '\\[';
    } else if (sign === '{' && closing.has(at)) {
      braces++;
      source += '(?:';
    } else if (sign === '}' && braces > 0) {
      braces--;
      source += ')';
    } else if (sign === ',' && braces > 0) source += '|';
    else if (sign === '\\' && at + 1 < glob.length) source += escaped(glob[++at] ?? '');
    else source += escaped(sign);
  }
  return source;
};

/** Returns the places of the opening braces that are closed. */
const closableBraces = (glob: string): ReadonlySet<number> => {
  const open: number[] = [];
  const closed = new Set<number>();
  for (let at = 0; at < glob.length; at++) {
    if (glob[at] === '\\') at++;
    else if (glob[at] === '{') open.push(at);
    else if (glob[at] === '}') {
      const start = open.pop();
      if (start !== undefined) closed.add(start);
    }
  }
  return closed;
};
