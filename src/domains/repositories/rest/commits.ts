import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { slicePage } from '#platform/paging.ts';
import { boolean, dateTime, idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import {
  COMMIT_ORDERS,
  diffOfCommit,
  getCommit,
  listCommits,
  pipelineOfCommit,
  refsOfCommit,
  sequenceOfCommit,
  signatureOfCommit,
  statsOfCommits,
} from '../commits.ts';
import { diffFileRecord, listedCommitRecord, toCommit, toDiff, toWholeCommit, wholeCommitRecord } from '../record.ts';

const tag = 'Commits';

const id = idOrPath();
const sha = text({ max: 1_000 });

const signatureRecord = z
  .object({
    signature_type: z.string(),
    verification_status: z.string(),
    commit_source: z.string(),
    gpg_key_id: z.null().optional(),
    key: z.null().optional(),
    x509_certificate: z.null().optional(),
  })
  .meta({ id: 'CommitSignature' });

export const commitRoutes = [
  listRoute({
    path: '/projects/:id/repository/commits',
    tag,
    summary: 'List commits',
    description:
      'Newest first, without a total. `ref_name` may be a range, `a..b` or `a...b`. `all` lists the commits of every branch and tag.',
    auth: 'optional',
    input: {
      id,
      ref_name: text({ max: 1_000 }).optional(),
      since: dateTime().optional(),
      until: dateTime().optional(),
      path: text({ max: 4_096 }).optional(),
      author: text({ max: 255 }).optional(),
      first_parent: boolean().optional(),
      all: boolean().optional(),
      order: oneOf(COMMIT_ORDERS).default('default'),
      with_stats: boolean().default(false),
    },
    item: listedCommitRecord,
    paging: 'offset',
    run: async (ctx, { id, with_stats, ...filter }, wanted) => {
      const project = await getProject(ctx, id);
      const { limit } = wanted;
      const offset = wanted.kind === 'offset' ? wanted.offset : 0;
      const commits = await listCommits(ctx, project, filter, { limit: limit + 1, offset });
      const page = commits.slice(0, limit);
      const stats = with_stats ? await statsOfCommits(ctx, project, page) : null;
      const items = page.map((each) => {
        const ofThis = stats?.get(each.id);
        return { ...toCommit(ctx, project, each), ...(ofThis ? { stats: { ...ofThis } } : {}) };
      });
      return { items, total: null, hasNext: commits.length > limit };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/commits/:sha',
    tag,
    summary: 'Show a commit, by its id or a branch or tag',
    auth: 'optional',
    jobTokens: true,
    input: { id, sha, stats: boolean().default(true) },
    response: wholeCommitRecord,
    run: async (ctx, { id, sha, stats: withStats }) => {
      const project = await getProject(ctx, id);
      const commit = await getCommit(ctx, project, sha);
      const [stats, pipeline] = await Promise.all([
        withStats ? statsOfCommits(ctx, project, [commit]) : null,
        pipelineOfCommit(ctx, project, commit),
      ]);
      return toWholeCommit(ctx, project, commit, { stats: stats?.get(commit.id) ?? null, pipeline });
    },
  }),
  listRoute({
    path: '/projects/:id/repository/commits/:sha/diff',
    tag,
    summary: 'Show the changes of a commit',
    description:
      'Compares with the first parent. Leaves out patches larger than `diff_max_patch_bytes` (`too_large`), and patches that would make the page exceed 10 MiB or `diff_max_lines` (`collapsed`).',
    auth: 'optional',
    input: { id, sha, unidiff: boolean().default(false) },
    item: diffFileRecord,
    paging: 'offset',
    run: async (ctx, { id, sha, unidiff }, wanted) => {
      const project = await getProject(ctx, id);
      const skip = wanted.kind === 'offset' ? wanted.offset : 0;
      const { files, total } = await diffOfCommit(ctx, project, sha, { skip, limit: wanted.limit });
      return { items: files.map((file) => toDiff(file, unidiff)), total };
    },
  }),
  listRoute({
    path: '/projects/:id/repository/commits/:sha/refs',
    tag,
    summary: 'List the branches and tags that contain a commit',
    auth: 'optional',
    input: { id, sha, type: oneOf(['branch', 'tag', 'all']).default('all') },
    item: z.object({ type: z.enum(['branch', 'tag']), name: z.string() }).meta({ id: 'CommitRef' }),
    paging: 'offset',
    run: async (ctx, { id, sha, type }, wanted) => {
      const project = await getProject(ctx, id);
      return slicePage(await refsOfCommit(ctx, project, sha, type), wanted);
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/commits/:sha/sequence',
    tag,
    summary: 'Count the commits up to a commit',
    auth: 'optional',
    input: { id, sha, first_parent: boolean().default(false) },
    response: z.object({ count: z.int() }).meta({ id: 'CommitSequence' }),
    run: async (ctx, { id, sha, first_parent }) => {
      const project = await getProject(ctx, id);
      return { count: await sequenceOfCommit(ctx, project, sha, first_parent) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/commits/:sha/signature',
    tag,
    summary: 'Show the signature of a commit',
    description:
      'Returns 404 if there is no signature. The hub stores no public keys, so it returns the kind without verifying it.',
    auth: 'optional',
    input: { id, sha },
    response: signatureRecord,
    run: async (ctx, { id, sha }) => {
      const project = await getProject(ctx, id);
      const kind = await signatureOfCommit(ctx, project, sha);
      const key = { PGP: { gpg_key_id: null }, SSH: { key: null }, X509: { x509_certificate: null } }[kind];
      return {
        signature_type: kind,
        verification_status: kind === 'X509' ? 'unverified' : 'unknown_key',
        ...key,
        commit_source: 'gitaly',
      };
    },
  }),
];
