import { loadProject } from '#domains/projects/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, connection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { loadDiff, MergeRequestRef } from '../graphql.ts';
import type { MergeRequestRow } from '../queries.ts';
import {
  type DiffCommitRow,
  type DiffStat,
  diffStatsByDiffIds,
  listDiffCommitsBelow,
  listDiffCommitsWithoutMerges,
} from '../versions/queries.ts';

// The files and commits of the newest version of a merge request.

const loadDiffStats = loader(diffStatsByDiffIds);

const DiffStats = builder.objectRef<DiffStat>('DiffStats').implement({
  description: 'Lines added and removed in a file.',
  fields: (t) => ({
    path: t.exposeString('path', { nullable: false }),
    additions: t.exposeInt('additions', { nullable: false }),
    deletions: t.exposeInt('deletions', { nullable: false }),
  }),
});

const DiffStatsSummary = builder
  .objectRef<{ readonly additions: number; readonly deletions: number; readonly files: number }>('DiffStatsSummary')
  .implement({
    fields: (t) => ({
      additions: t.exposeInt('additions', { nullable: false }),
      deletions: t.exposeInt('deletions', { nullable: false }),
      changes: t.int({ nullable: false, resolve: ({ additions, deletions }) => additions + deletions }),
      fileCount: t.exposeInt('files', { nullable: false }),
    }),
  });

const MergeRequestCommit = builder.objectRef<DiffCommitRow>('MergeRequestCommit').implement({
  description: 'A commit as stored with the merge request, even if the repository no longer has it.',
  fields: (t) => ({
    sha: t.exposeString('sha', { nullable: false }),
    shortId: t.string({ nullable: false, resolve: ({ sha }) => sha.slice(0, 8) }),
    title: t.string({ resolve: ({ message }) => message && (message.split('\n', 1)[0] ?? '') }),
    message: t.exposeString('message'),
    authorName: t.exposeString('author_name'),
    authorEmail: t.exposeString('author_email'),
    authoredDate: t.expose('authored_date', { type: 'Time' }),
    committerName: t.exposeString('committer_name'),
    committerEmail: t.exposeString('committer_email'),
    committedDate: t.expose('committed_date', { type: 'Time' }),
  }),
});
const MergeRequestCommitConnection = builder.connectionObject(
  { type: MergeRequestCommit, name: 'MergeRequestCommitConnection' },
  { name: 'MergeRequestCommitEdge' },
);

const commitsBelow = batchedConnection((ctx, _args: ConnectionArguments) => listDiffCommitsBelow(ctx));

const diffStatsOf = async (ctx: Context, { id }: MergeRequestRow): Promise<readonly DiffStat[] | null> => {
  const diff = await loadDiff(ctx, id);
  return diff && ((await loadDiffStats(ctx, diff.id)) ?? []);
};

/** Reading every line of a diff costs more than reading a row. */
const READS_DIFF = { extensions: { cost: 5 } } as const;

builder.objectFields(MergeRequestRef, (t) => ({
  diffStats: t.field({
    ...READS_DIFF,
    type: [DiffStats],
    args: { path: t.arg.string() },
    resolve: async (row, { path }, ctx) => {
      const stats = await diffStatsOf(ctx, row);
      return path == null ? stats : (stats?.filter((each) => each.path === path) ?? null);
    },
  }),
  diffStatsSummary: t.field({
    ...READS_DIFF,
    type: DiffStatsSummary,
    resolve: async (row, _args, ctx) => {
      const stats = await diffStatsOf(ctx, row);
      return (
        stats && {
          files: stats.length,
          additions: stats.reduce((sum, each) => sum + each.additions, 0),
          deletions: stats.reduce((sum, each) => sum + each.deletions, 0),
        }
      );
    },
  }),
  commitCount: t.int({
    resolve: async ({ id }, _args, ctx) => (await loadDiff(ctx, id))?.commits_count ?? null,
  }),
  commits: t.connection(
    {
      type: MergeRequestCommit,
      description: 'Newest first.',
      resolve: (row, args, ctx, info) => commitsBelow(row.id, args, ctx, info),
    },
    MergeRequestCommitConnection,
  ),
  commitsWithoutMergeCommits: t.connection(
    {
      type: MergeRequestCommit,
      description: 'Newest first. Commits that the repository no longer has count as no merges.',
      // Each merge request has its own statement, and reads up to a thousand commits.
      extensions: { cost: 90 },
      resolve: (row, args, ctx, info) =>
        connection(args, info, async (page) => {
          const project = await loadProject(ctx, row.project_id);
          return pageOfAll(page, project ? await listDiffCommitsWithoutMerges(ctx, project, row) : [], ({ sha }) => [
            sha,
          ]);
        }),
    },
    MergeRequestCommitConnection,
  ),
}));
