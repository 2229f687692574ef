import { ConfigError } from './config-error.ts';
import type { Variable } from './model.ts';

/** `$$` stays as it is, so that shells and later expansions read it. */
const REFERENCE = /\$\$|\$([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)\}|%([A-Za-z_]\w*)%/g;
/** References within references can double a value at each step. */
const MAX_EXPANDED = 1_000_000;
/** Of all variables together. A small file can refer to one long value very often. */
const MAX_TOGETHER = 5_000_000;
/** What names and paths may expand to. Environments, resource groups and files of repositories have shorter ones. */
export const MAX_NAME = 1_000;

const tooLong = () => new ConfigError('variables expand to a text that is too long');

/** The characters that variables may still expand to. */
export interface ExpansionBudget {
  left: number;
}

/**
 * Replaces `$NAME`, `${NAME}` and `%NAME%` by the values that `valueFor` returns. Unknown references and `$$` stay.
 *
 * @throws ConfigError if the values in the result have more than `most` characters
 */
export const expandText = (
  text: string,
  valueFor: (name: string) => string | undefined,
  most = MAX_EXPANDED,
): string => {
  if (!/[$%]/.test(text)) return text;
  let left = most;
  return text.replaceAll(REFERENCE, (whole, plain?: string, braced?: string, percent?: string) => {
    const name = plain ?? braced ?? percent;
    const value = name === undefined ? whole : (valueFor(name) ?? whole);
    left -= value.length;
    if (left < 0) throw tooLong();
    return value;
  });
};

/** Returns a lookup of the last value of each name. A file variable does not count. */
export const valuesOf = (variables: readonly Variable[]): ((name: string) => string | undefined) => {
  const values = new Map(variables.map(({ key, value }) => [key, value]));
  return (name) => values.get(name);
};

/** Returns whether the last value of a name is masked, or contains one that is. Takes expanded variables. */
export const masksOf = (variables: readonly Variable[]): ((name: string) => boolean) => {
  const masks = new Map(variables.map(({ key, masked }) => [key, masked ?? false]));
  return (name) => masks.get(name) ?? false;
};

/** Whether the value can refer to other variables. Most values cannot. */
export const isTemplate = ({ value, raw, file }: Variable): boolean => !raw && !file && /[$%]/.test(value);

/** Returns the names that the value of a variable refers to. */
const referencesOf = ({ value }: Variable): string[] =>
  [...value.matchAll(REFERENCE)].flatMap(([, plain, braced, percent]) => plain ?? braced ?? percent ?? []);

/**
 * Expands references between variables: the last variable of a name counts, each variable keeps its place. Raw and file
 * variables are left alone, and so are references to file variables. A variable that refers to its own name gets the
 * value below it (`PATH: "$PATH:/bin"`). A variable that gets a masked value is masked too.
 *
 * @throws ConfigError `circular variable reference detected: ["A", "B"]`; if the values are longer together than 5,000,000
 * characters, or than the budget that this call shares with others
 */
export const expandVariables = <V extends Variable>(variables: readonly V[], budget?: ExpansionBudget): V[] => {
  const templates = variables.flatMap((variable, index) => (isTemplate(variable) ? [index] : []));
  // Rules ask for the variables of each job, so this is the path of large files.
  if (templates.length === 0) return [...variables];
  let left = Math.min(MAX_TOGETHER, budget?.left ?? MAX_TOGETHER);
  const last = new Map(variables.map((variable, index) => [variable.key, index]));
  const expanded = new Map<number, string>();
  const masked = new Set<number>(variables.flatMap((variable, index) => (variable.masked ? [index] : [])));
  const open = new Set<number>();
  const waiting = new Set(templates);

  /** Returns which variable a name means in the value of the variable at `index`. */
  const meant = (name: string, index: number): number | undefined => {
    if (name !== variables[index]?.key) return last.get(name);
    for (let at = index - 1; at >= 0; at--) if (variables[at]?.key === name) return at;
    return undefined;
  };

  // By hand instead of recursion: chains may be as long as there are variables.
  const visit = (start: number) => {
    const path = [start];
    for (let index = path.at(-1); index !== undefined; index = path.at(-1)) {
      const variable = variables[index];
      if (!variable || !waiting.has(index)) {
        path.pop();
        continue;
      }
      const needed = open.has(index) ? [] : referencesOf(variable).flatMap((name) => meant(name, index) ?? []);
      open.add(index);
      const pending = needed.filter((each) => waiting.has(each));
      const circular = pending.find((each) => open.has(each));
      if (circular !== undefined) {
        const circle = path.slice(path.indexOf(circular)).filter((each) => open.has(each));
        const names = new Set(circle.map((each) => variables[each]?.key));
        throw new ConfigError(`circular variable reference detected: ${JSON.stringify([...names])}`);
      }
      if (pending.length > 0) {
        path.push(...pending);
        continue;
      }
      const value = expandText(variable.value, (name) => {
        const place = meant(name, index) ?? -1;
        const other = variables[place];
        if (other === undefined || other.file) return undefined;
        if (masked.has(place)) masked.add(index);
        return expanded.get(place) ?? other.value;
      });
      left -= value.length;
      if (budget) budget.left -= value.length;
      if (left < 0) throw tooLong();
      expanded.set(index, value);
      open.delete(index);
      waiting.delete(index);
      path.pop();
    }
  };

  for (const index of templates) visit(index);
  return variables.map((variable, index) => {
    const value = expanded.get(index);
    if (value === undefined) return variable;
    return masked.has(index) ? { ...variable, value, masked: true } : { ...variable, value };
  });
};
