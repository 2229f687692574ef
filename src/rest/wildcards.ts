/** Groups nest 20 levels deep. */
const MAX_SEGMENTS = 23;

/**
 * Returns the router's paths of a declared path. `*name` takes one or more segments. The router supports wildcards only
 * at the end of a path, so an earlier one becomes a path for each number of segments.
 */
export const routerPaths = (declared: string): readonly string[] => {
  const [, before = '', name = '', after = ''] = WILDCARD.exec(declared) ?? [];
  if (name === '') return [declared];
  if (after === '') return [`${before}*`];
  const segments = Array.from({ length: MAX_SEGMENTS }, (_, n) => `:${name}${n}`);
  return segments.map((_, n) => before + segments.slice(0, n + 1).join('/') + after);
};

type PathParameters = Readonly<Record<string, string>>;

/**
 * Returns a function that reads the path parameters of the router under their declared names. The segments of `*name`
 * are joined by `/`.
 */
export const pathReader = (declared: string): ((params: PathParameters) => PathParameters) => {
  const [, , name = '', after = ''] = WILDCARD.exec(declared) ?? [];
  if (name === '') return (params) => params;
  if (after === '') return ({ '*': rest = '', ...params }) => ({ ...params, [name]: rest });
  return (params) => {
    const read: Record<string, string> = {};
    const segments: string[] = [];
    for (const [key, value] of Object.entries(params)) {
      if (isSegmentOf(name, key)) segments.push(value);
      else read[key] = value;
    }
    read[name] = segments.join('/');
    return read;
  };
};

const WILDCARD = /^(.*)\*([A-Za-z_]+)(.*)$/;

const isSegmentOf = (name: string, key: string): boolean =>
  key.startsWith(name) && /^\d+$/.test(key.slice(name.length));
