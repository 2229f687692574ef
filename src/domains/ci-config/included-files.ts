import { createHash } from 'node:crypto';
import { contentPath } from '#domains/repositories/model.ts';
import { outboundPolicy } from '#domains/settings/outbound.ts';
import type { Context } from '#platform/context.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';
import { ConfigError } from './config-error.ts';
import { isPlainPath } from './globs.ts';
import type { IncludeTarget } from './include-entries.ts';
import type { IncludedFile } from './model.ts';
import { matchingPaths, withoutLead } from './path-globs.ts';
import { MAX_FILE_BYTES, otherView, type RepositoryView } from './repository-view.ts';
import { readTemplate } from './templates.ts';
import { expandText } from './variables.ts';

const MAX_REDIRECTS = 3;
const FETCH_TIMEOUT_MS = 10_000;
const YAML_NAME = /\.ya?ml$/i;

/** Where a file comes from: local includes name files next to it. */
export interface Origin {
  /** Null for a remote file. */
  readonly view: RepositoryView | null;
}

/** A text of an `include` entry. Variables in it may be secrets, so messages and results show the text as written. */
interface Address {
  readonly written: string;
  readonly expanded: string;
}

export interface FoundFile {
  readonly text: string;
  readonly origin: Origin;
  readonly shown: IncludedFile;
}

/** Reads a file from the archive that a job of the parent pipeline left. Null without such a job or archive. */
export type ReadArtifact = (job: string, path: string) => Promise<{ readonly text: string | null } | null>;

/**
 * Returns the files that an entry of `include` names, in the order of their names for a glob. Only child pipelines have
 * `readArtifact`.
 *
 * @throws ConfigError
 */
export const findFiles = async (
  ctx: Context,
  target: IncludeTarget,
  origin: Origin,
  { valueFor, signal, readArtifact }: FindOptions,
): Promise<readonly FoundFile[]> => {
  const expand = (written: string): Address => ({
    written,
    expanded: expandText(written, (name) => valueFor(name) ?? undefined),
  });
  switch (target.kind) {
    case 'local':
      return findLocal(ctx, expand(target.path), origin);
    case 'file': {
      const project = expand(target.project);
      const view = await viewOfProject(ctx, project, target.ref === null ? null : expand(target.ref));
      return Promise.all(
        target.paths.map((path) => readOf(ctx, 'file', view, expand(path), missingIn(project.written), origin)),
      );
    }
    case 'remote':
      return [await fetchRemote(ctx, expand(target.url), target.integrity, origin, signal)];
    case 'component':
      return [await findComponent(ctx, expand(target.address), origin)];
    case 'template':
      return [await findTemplate(expand(target.name), origin)];
    case 'artifact':
      return [await findArtifact(readArtifact, { job: expand(target.job), path: expand(target.path) }, origin)];
  }
};

interface FindOptions {
  readonly valueFor: (name: string) => string | null;
  readonly signal: AbortSignal;
  readonly readArtifact?: ReadArtifact | undefined;
}

const missingIn = (project: string) => (path: string) => `Project \`${project}\` file \`${path}\` does not exist!`;

const findLocal = async (ctx: Context, given: Address, { view }: Origin): Promise<readonly FoundFile[]> => {
  const { written } = given;
  if (!view) throw new ConfigError(`Local file \`${written}\` does not have project!`);
  const path = withoutLead(given.expanded);
  if (!YAML_NAME.test(path)) throw new ConfigError(`Local file \`${written}\` does not have a valid YAML extension!`);
  const missing = () => `Local file \`${written}\` does not exist!`;
  if (isPlainPath(path)) return [await readOf(ctx, 'local', view, given, missing, { view })];
  const paths = await matchingPaths(await view.paths(), path);
  if (paths.length === 0) throw new ConfigError(missing());
  const found: FoundFile[] = [];
  for (const each of [...paths].sort()) found.push(await readOf(ctx, 'local', view, plain(each), missing, { view }));
  return found;
};

/** An address without variables. */
const plain = (path: string): Address => ({ written: path, expanded: path });

const viewOfProject = async (ctx: Context, path: Address, ref: Address | null): Promise<RepositoryView> => {
  const view = await otherView(ctx, path.expanded, ref?.expanded ?? null);
  if (view === 'no_project') {
    throw new ConfigError(
      `Project \`${path.written}\` not found or access denied! Make sure any includes in the pipeline configuration are correctly defined.`,
    );
  }
  if (view === 'no_ref') {
    throw new ConfigError(`Project \`${path.written}\` reference \`${ref?.written ?? 'HEAD'}\` does not exist!`);
  }
  return view;
};

const readOf = async (
  ctx: Context,
  type: 'local' | 'file' | 'component',
  view: RepositoryView,
  { written, expanded }: Address,
  missing: (path: string) => string,
  includer: Origin,
): Promise<FoundFile> => {
  const path = withoutLead(expanded);
  if (!YAML_NAME.test(path)) throw new ConfigError(`Included file \`${written}\` does not have YAML extension!`);
  const text = await view.read(path);
  if (text === null) throw new ConfigError(missing(written));
  if (text.trim() === '') throw new ConfigError(`Included file \`${written}\` is empty or does not exist!`);
  const { base } = ctx.services.urls;
  return {
    text,
    origin: { view },
    shown: {
      type,
      location: written,
      blob: base + contentPath(view.project, 'blob', view.sha, path),
      raw: base + contentPath(view.project, 'raw', view.sha, path),
      extra: type === 'local' ? {} : { project: view.project.full_path, ref: view.sha },
      ...contextOf(includer),
    },
  };
};

const contextOf = ({ view }: Origin): Pick<IncludedFile, 'context_project' | 'context_sha'> => ({
  context_project: view?.project.full_path ?? null,
  context_sha: view?.sha ?? null,
});

const fetchRemote = async (
  ctx: Context,
  { written, expanded: url }: Address,
  integrity: string | null,
  includer: Origin,
  signal: AbortSignal,
): Promise<FoundFile> => {
  const shown = URL.canParse(written) ? withoutCredentials(written) : written;
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new ConfigError(`Remote file \`${shown}\` address is not valid!`);
  const answer = await ctx.services.http
    .request({
      url,
      method: 'GET',
      policy: await outboundPolicy(ctx),
      timeoutMs: FETCH_TIMEOUT_MS,
      maxResponseBytes: MAX_FILE_BYTES,
      followRedirects: { max: MAX_REDIRECTS },
      signal,
    })
    .catch((error: unknown) => {
      if (!(error instanceof OutboundError)) throw error;
      // The message may name the port.
      const reason = error.kind === 'blocked' && url !== written ? 'URL is blocked' : error.message;
      throw new ConfigError(`Remote file \`${shown}\` could not be fetched because: ${reason}`);
    });
  if (answer.status < 200 || answer.status >= 300) {
    throw new ConfigError(
      `Remote file \`${shown}\` could not be fetched because of HTTP code \`${answer.status}\` error!`,
    );
  }
  if (answer.truncated) throw new ConfigError(`Remote file \`${shown}\` is too big`);
  if (integrity !== null && !isIntact(answer.body, integrity)) {
    throw new ConfigError(`Remote file \`${shown}\` failed the integrity check`);
  }
  return {
    text: answer.body.toString('utf8').replace(/^\uFEFF/, ''),
    origin: { view: null },
    shown: { type: 'remote', location: shown, blob: null, raw: shown, extra: {}, ...contextOf(includer) },
  };
};

const withoutCredentials = (url: string): string => {
  const parsed = new URL(url);
  if (parsed.username === '' && parsed.password === '') return url;
  parsed.username = '';
  parsed.password = '';
  return parsed.href;
};

const isIntact = (body: Buffer, integrity: string): boolean => {
  const expected = /^sha256-([A-Za-z0-9+/]{43}=)$/.exec(integrity)?.[1];
  return expected === createHash('sha256').update(body).digest('base64');
};

const findTemplate = async ({ written, expanded }: Address, includer: Origin): Promise<FoundFile> => ({
  text: await readTemplate(expanded, written),
  origin: { view: null },
  shown: { type: 'template', location: written, blob: null, raw: null, extra: {}, ...contextOf(includer) },
});

/** Local includes of the file are read at the commit of the pipeline. */
const findArtifact = async (
  read: ReadArtifact | undefined,
  { job, path }: { readonly job: Address; readonly path: Address },
  includer: Origin,
): Promise<FoundFile> => {
  if (!read) throw new ConfigError('Including configs from artifacts is only allowed when triggering child pipelines');
  if (!YAML_NAME.test(path.expanded))
    throw new ConfigError(`Included file \`${path.written}\` does not have YAML extension!`);
  const found = await read(job.expanded, path.expanded);
  if (!found) throw new ConfigError(`Job \`${job.written}\` not found in parent pipeline or does not have artifacts!`);
  if (found.text === null)
    throw new ConfigError(`Artifact file \`${path.written}\` of job \`${job.written}\` does not exist!`);
  return {
    text: found.text,
    origin: includer,
    shown: {
      type: 'artifact',
      location: path.written,
      blob: null,
      raw: null,
      extra: { job_name: job.written },
      ...contextOf(includer),
    },
  };
};

/** Finds `host/project/component@version` in a project of this hub. */
const findComponent = async (ctx: Context, { written, expanded }: Address, includer: Origin): Promise<FoundFile> => {
  const [, host = '', path = '', name = '', version = ''] =
    /^([^/@]+)\/([^@]+)\/([\w.-]+)@([^@]+)$/.exec(expanded) ?? [];
  const missing = `Component '${written}' - content not found`;
  if (host === '') throw new ConfigError(`Component '${written}' - address is not valid`);
  if (host !== new URL(ctx.services.urls.base).host) {
    throw new ConfigError(`Component '${written}' - only components of this hub are supported`);
  }
  if (version.startsWith('~')) throw new ConfigError(`Component '${written}' - the version ~latest is not supported`);
  // The parts of an address with variables cannot be told apart in the text as written.
  const part = (text: string): Address => ({ written: written === expanded ? text : written, expanded: text });
  const view = await viewOfProject(ctx, part(path), part(version));
  for (const file of [`templates/${name}.yml`, `templates/${name}/template.yml`]) {
    if (await view.has(file)) {
      const found = await readOf(ctx, 'component', view, plain(file), () => missing, includer);
      return { ...found, shown: { ...found.shown, location: written } };
    }
  }
  throw new ConfigError(missing);
};
