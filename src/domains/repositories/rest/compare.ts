import { z } from 'zod';
import { projectWebUrl } from '#domains/projects/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { slicePage } from '#platform/paging.ts';
import type { Input } from '#rest/input.ts';
import { boolean, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, route, streamRoute } from '#rest/route.ts';
import { CONTRIBUTOR_ORDERS, compare, contributorsOf, mergeBaseOf } from '../compare.ts';
import { getArchive } from '../queries/archives.ts';
import { commitRecord, diffFileRecord, toCommit, toDiff } from '../record.ts';

const tag = 'Repositories';

const id = idOrPath();
const revision = text({ max: 1_000 });

const compareRecord = z
  .object({
    commit: commitRecord.nullable(),
    commits: z.array(commitRecord),
    diffs: z.array(diffFileRecord),
    compare_timeout: z.boolean(),
    compare_same_ref: z.boolean(),
    web_url: z.string(),
  })
  .meta({ id: 'Comparison' });

const contributorRecord = z
  .object({
    name: z.string(),
    email: z.string(),
    commits: z.int(),
    additions: z.int(),
    deletions: z.int(),
  })
  .meta({ id: 'Contributor' });

const archiveInput = {
  id,
  format: text({ max: 20 }).default('tar.gz'),
  sha: revision.optional(),
  path: text({ max: 4_096 }).optional(),
};

/** The same archive at two URLs. In one the format is the extension. */
const archiveDeclaration = {
  method: 'GET',
  tag,
  summary: 'Download the files of a commit as an archive',
  description:
    'The format is `tar.gz` unless the URL or `format` names `zip`, `tar` or, if bzip2 is installed, `tar.bz2`. `path` limits the archive to one folder. Git LFS files appear as pointers, because the hub stores none. A caller can download 4 archives at a time. `Range` is not supported.',
  auth: 'optional',
  input: archiveInput,
  run: async (ctx: Context, { id, ...input }: Input<typeof archiveInput>) => {
    const archive = await getArchive(ctx, await getProject(ctx, id), input);
    const { filename, contentType, etag } = archive;
    return { stream: () => archive.open(), filename, contentType, etag };
  },
} as const;

export const compareRoutes = [
  route({
    method: 'GET',
    path: '/projects/:id/repository/compare',
    tag,
    summary: 'Compare two branches, tags or commits',
    description:
      'Compares `to` with the merge base, or with `straight` directly with `from`. Returns at most 1,000 commits and files; `compare_timeout` is true if some were left out.',
    auth: 'optional',
    input: {
      id,
      from: revision,
      to: revision,
      straight: boolean().default(false),
      unidiff: boolean().default(false),
      from_project_id: integer({ min: 1 }).optional(),
    },
    response: compareRecord,
    run: async (ctx, { id, unidiff, ...input }) => {
      const project = await getProject(ctx, id);
      const { commit, commits, diff, overflow, same } = await compare(ctx, project, input);
      const between = [input.from, input.to].map(encodeURIComponent).join(input.straight ? '..' : '...');
      return {
        commit: commit && toCommit(ctx, project, commit),
        commits: commits.map((each) => toCommit(ctx, project, each)),
        diffs: diff.files.map((file) => toDiff(file, unidiff)),
        compare_timeout: overflow,
        compare_same_ref: same,
        web_url: `${projectWebUrl(ctx, project)}/-/compare/${between}`,
      };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/merge_base',
    tag,
    summary: 'Find the common ancestor of two or more branches, tags or commits',
    auth: 'optional',
    input: { id, refs: list(revision, { max: 20 }) },
    response: commitRecord,
    run: async (ctx, { id, refs }) => {
      const project = await getProject(ctx, id);
      return toCommit(ctx, project, await mergeBaseOf(ctx, project, refs));
    },
  }),
  listRoute({
    path: '/projects/:id/repository/contributors',
    tag,
    summary: 'List contributors',
    description: 'Merges do not count. `additions` and `deletions` are always 0, because lines are not counted.',
    auth: 'optional',
    input: {
      id,
      ref: revision.optional(),
      order_by: oneOf(CONTRIBUTOR_ORDERS).default('commits'),
      sort: oneOf(['asc', 'desc']).default('asc'),
    },
    item: contributorRecord,
    paging: 'offset',
    run: async (ctx, { id, ...filter }, wanted) => {
      const project = await getProject(ctx, id);
      const page = slicePage(await contributorsOf(ctx, project, filter), wanted);
      return { ...page, items: page.items.map((each) => ({ ...each, additions: 0, deletions: 0 })) };
    },
  }),
  streamRoute({ ...archiveDeclaration, path: '/projects/:id/repository/archive' }),
  streamRoute({ ...archiveDeclaration, path: '/projects/:id/repository/archive.:format' }),
];
