import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PostgresQueryCompiler } from 'kysely';
import pg from 'pg';

// Records the statements that a test run sends, and saves the names of everything reached (docs/decisions/0029).

const seen = new Set<string>();
let unwritten = '';

/** Records that a test has reached the item with this name. */
export const reach = (name: string): void => {
  if (seen.has(name)) return;
  seen.add(name);
  unwritten += `${JSON.stringify(name)}\n`;
};

/** This folder is inside the directory of the run, which the workers inherit and the run removes. */
const directory = (): string => join(tmpdir(), 'reached');

/** Saves what this process has reached until the run ends. */
export const writeReached = (): void => {
  if (unwritten === '') return;
  mkdirSync(directory(), { recursive: true });
  appendFileSync(join(directory(), `${process.pid}.jsonl`), unwritten);
  unwritten = '';
};

/** Returns the names that all processes of the run have reached. */
export const readReached = (): ReadonlySet<string> => {
  const names = new Set<string>();
  for (const file of existsSync(directory()) ? readdirSync(directory()) : []) {
    for (const line of readFileSync(join(directory(), file), 'utf8').split('\n')) {
      const name: unknown = line === '' ? null : JSON.parse(line);
      if (typeof name === 'string') names.add(name);
    }
  }
  return names;
};

/** Returns the name of a `sql` template, from the text between its parameters. */
export const templateName = (fragments: readonly string[]): string => `template ${digest(fragments.join('\0'))}`;

/** Returns the name of a whole statement. */
export const statementTextName = (text: string): string => `statement ${digest(text)}`;

const digest = (text: string): string => createHash('sha1').update(text).digest('base64url');

/** Calls `before` with the arguments at each call of this method. */
const observe = (target: object, method: string, before: (args: readonly unknown[]) => void): void => {
  const original: unknown = Reflect.get(target, method);
  if (typeof original !== 'function') throw new Error(`There is no method ${method} any more`);
  const observed = function (this: unknown, ...args: unknown[]): unknown {
    before(args);
    return Reflect.apply(original, this, args);
  };
  Object.defineProperty(target, method, { value: observed, configurable: true, writable: true });
};

const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;

/** Templates seen so far. A template passes the same array each time its line runs. */
const templates = new WeakSet<readonly unknown[]>();

// Whatever is compiled is also sent. A template that is only evaluated does not count.
observe(PostgresQueryCompiler.prototype, 'visitRaw', ([node]) => {
  const fragments = field(node, 'sqlFragments');
  if (!Array.isArray(fragments) || templates.has(fragments)) return;
  templates.add(fragments);
  reach(templateName(fragments));
});

/** Texts without a name, and the names of prepared statements, which are compared much faster than their texts. */
const sent = new Set<string>();

observe(pg.Client.prototype, 'query', ([query]) => {
  const text = typeof query === 'string' ? query : field(query, 'text');
  if (typeof text !== 'string') return;
  const name = field(query, 'name');
  const key = typeof name === 'string' ? name : text;
  if (sent.has(key)) return;
  sent.add(key);
  reach(statementTextName(text));
});
