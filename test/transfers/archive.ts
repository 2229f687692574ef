import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { extract, type Header, pack } from 'tar-stream';

export type Files = Readonly<Record<string, string | Buffer>>;

/** Returns the files of an archive by name. */
export const unpackFiles = async (archive: Buffer): Promise<Map<string, Buffer>> => {
  const files = new Map<string, Buffer>();
  const tar = extract();
  tar.end(gunzipSync(archive));
  for await (const entry of tar) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(Buffer.from(bytesOf(chunk)));
    files.set(entry.header.name, Buffer.concat(chunks));
  }
  return files;
};

/** Returns the relations of an archive as objects, without the ids that differ between instances. */
export const readTree = async (archive: Buffer): Promise<Record<string, unknown>> => {
  const tree: Record<string, unknown> = {};
  for (const [name, bytes] of await unpackFiles(archive)) {
    const relation = /^tree\/project\/(.*)\.ndjson$/.exec(name)?.[1];
    const lines = bytes.toString().split('\n').filter(Boolean);
    if (relation !== undefined) tree[relation] = lines.map((line) => withoutIds(JSON.parse(line)));
    else if (name === 'tree/project.json') tree.project = JSON.parse(bytes.toString());
  }
  return tree;
};

const OWN = new Set(['project_id', 'source_project_id', 'target_project_id', 'group_id']);
const withoutIds = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withoutIds);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, each]) => (OWN.has(key) ? [] : [[key, withoutIds(each)]])),
  );
};

/** Packs files into an archive. Entries in `extra` may be of any type. */
export const packFiles = async (
  files: Files,
  extra: readonly (Partial<Header> & { readonly name: string; readonly body?: string })[] = [],
): Promise<Buffer> => {
  const tar = pack();
  for (const [name, body] of Object.entries(files)) tar.entry({ name }, Buffer.from(body));
  for (const { body, ...header } of extra) {
    if (body === undefined) tar.entry(header);
    else tar.entry(header, body);
  }
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar) chunks.push(Buffer.from(bytesOf(chunk)));
  return gzipSync(Buffer.concat(chunks));
};

const bytesOf = (chunk: unknown): Uint8Array => {
  if (!(chunk instanceof Uint8Array)) throw new Error('not a chunk of bytes');
  return chunk;
};

const PROJECT = JSON.stringify({ description: 'From elsewhere', visibility_level: 20, archived: false });

/** Returns the files of a minimal archive with these relations, given as objects or as raw lines. */
export const projectFiles = (
  relations: Readonly<Record<string, readonly (string | object)[]>> = {},
  more: Files = {},
): Files => ({
  VERSION: '0.2.4\n',
  'tree/project.json': PROJECT,
  ...Object.fromEntries(
    Object.entries(relations).map(([name, lines]) => [
      `tree/project/${name}.ndjson`,
      lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''),
    ]),
  ),
  ...more,
});

export const packProject = (
  relations: Readonly<Record<string, readonly (string | object)[]>> = {},
  more: Files = {},
): Promise<Buffer> => packFiles(projectFiles(relations, more));

/**
 * The unpacked archive of a real platform, which may lie beside the project. `fixtureFiles` returns null without it.
 */
const FIXTURE = join(import.meta.dirname, '../../../shared/reference/export-fixture');
export const fixtureFiles = (): Files | null => {
  if (!existsSync(join(FIXTURE, 'VERSION'))) return null;
  const files: Record<string, Buffer> = { VERSION: readFileSync(join(FIXTURE, 'VERSION')) };
  files['tree/project.json'] = readFileSync(join(FIXTURE, 'tree/project.json'));
  for (const name of readdirSync(join(FIXTURE, 'tree/project')))
    files[`tree/project/${name}`] = readFileSync(join(FIXTURE, 'tree/project', name));
  return files;
};

/** Runs git in a directory and returns its output. */
export const gitIn = (directory: string, ...args: string[]): string =>
  execFileSync('git', args, {
    cwd: directory,
    encoding: 'utf8',
    env: {
      PATH: process.env.PATH,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_AUTHOR_NAME: 'Ada',
      GIT_AUTHOR_EMAIL: 'ada@example.com',
      GIT_COMMITTER_NAME: 'Ada',
      GIT_COMMITTER_EMAIL: 'ada@example.com',
    },
  });
