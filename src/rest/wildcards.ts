/** Groups nest 20 levels deep. */
const MAX_SEGMENTS = 23;

/**
 * Returns the router's paths of a declared path. `*name` takes one or more segments; a path has at most one at its end
 * and one before. The router supports wildcards only at the end of a path, so an earlier one becomes a path for each
 * number of segments. The shortest one that fits is taken.
 */
export const routerPaths = (declared: string): readonly string[] => {
  const path = declared.replace(LAST, '*');
  const [, before = '', name = '', after = ''] = EARLIER.exec(path) ?? [];
  if (name === '') return [path];
  const segments = Array.from({ length: MAX_SEGMENTS }, (_, n) => `:${name}${n}`);
  return segments.map((_, n) => before + segments.slice(0, n + 1).join('/') + after);
};

type PathParameters = Readonly<Record<string, string>>;

/**
 * Returns a function that reads the path parameters of the router under their declared names. The segments of an earlier
 * `*name` are joined by `/`.
 */
export const pathReader = (declared: string): ((params: PathParameters) => PathParameters) => {
  const [, last = ''] = LAST.exec(declared) ?? [];
  const [, , earlier = ''] = EARLIER.exec(declared) ?? [];
  if (last === '' && earlier === '') return (params) => params;
  return ({ '*': rest = '', ...params }) => {
    const read: Record<string, string> = last === '' ? {} : { [last]: rest };
    const segments: string[] = [];
    for (const [key, value] of Object.entries(params)) {
      if (earlier !== '' && isSegmentOf(earlier, key)) segments.push(value);
      else read[key] = value;
    }
    return earlier === '' ? read : { ...read, [earlier]: segments.join('/') };
  };
};

const LAST = /\*([A-Za-z_]+)$/;
const EARLIER = /^(.*?)\*([A-Za-z_]+)(\/.*)$/;

const isSegmentOf = (name: string, key: string): boolean =>
  key.startsWith(name) && /^\d+$/.test(key.slice(name.length));
