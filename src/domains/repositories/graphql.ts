import { userIdsByAddresses } from '#domains/users/addresses.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { connection, pageOf } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { badRequest } from '#platform/errors.ts';
import { countCommits, findCommit, listCommits } from './commits.ts';
import { type InProject, READS_GIT } from './graphql/refs.ts';
import { RepositoryRef } from './graphql/repository.ts';
import { type Commit, commitWebUrl } from './model.ts';

export { batchedProtections, mayPushToBatched } from './graphql/refs.ts';
export { RepositoryRef } from './graphql/repository.ts';

const CommitTrailer = builder.objectRef<{ readonly key: string; readonly value: string }>('CommitTrailer').implement({
  fields: (t) => ({
    key: t.exposeString('key', { nullable: false }),
    value: t.exposeString('value', { nullable: false }),
  }),
});

const loadUserIdOf = loader((ctx, addresses: readonly string[]) => userIdsByAddresses(ctx, addresses));

/** A commit of a project. */
export const CommitRef = builder.objectRef<InProject<Commit>>('Commit');
CommitRef.implement({
  description: 'A commit. Times are in UTC, unlike in REST, which keeps the offset of the author.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => `gid://gitlab/Commit/${id}` }),
    sha: t.exposeString('id', { nullable: false }),
    shortId: t.exposeString('short_id', { nullable: false }),
    parentIds: t.stringList({ nullable: { list: false, items: false }, resolve: ({ parent_ids }) => [...parent_ids] }),
    title: t.exposeString('title', { nullable: true }),
    message: t.exposeString('message', { nullable: true }),
    authorName: t.exposeString('author_name', { nullable: true }),
    authorEmail: t.exposeString('author_email', { nullable: true }),
    author: t.field({
      type: UserRef,
      description: 'The user who has confirmed the address of the author.',
      resolve: async ({ author_email }, _args, ctx) => {
        const userId = await loadUserIdOf(ctx, author_email.toLowerCase());
        return userId === null ? null : loadUser(ctx, userId);
      },
    }),
    authoredDate: t.field({ type: 'Time', nullable: true, resolve: (commit) => utc(commit.authored_date) }),
    committerName: t.exposeString('committer_name', { nullable: true }),
    committerEmail: t.exposeString('committer_email', { nullable: true }),
    committedDate: t.field({ type: 'Time', nullable: true, resolve: (commit) => utc(commit.committed_date) }),
    trailers: t.field({
      type: [CommitTrailer],
      nullable: { list: false, items: false },
      resolve: ({ trailers }) => Object.entries(trailers).map(([key, value]) => ({ key, value })),
    }),
    webUrl: t.string({
      nullable: false,
      resolve: (commit, _args, ctx) => commitWebUrl(ctx, commit.project, commit.id),
    }),
  }),
});

const utc = (time: string): string => new Date(time).toISOString();

const CommitConnection = builder.connectionObject(
  { type: CommitRef, name: 'CommitConnection' },
  { name: 'CommitEdge' },
);

builder.objectFields(RepositoryRef, (t) => ({
  commit: t.field({
    type: CommitRef,
    nullable: true,
    ...READS_GIT,
    args: { ref: t.arg.string({ description: 'A branch, tag or commit id. Defaults to the default branch.' }) },
    resolve: async (project, { ref }, ctx) => {
      const commit = await findCommit(ctx, project, ref ?? undefined);
      return commit && { ...commit, project };
    },
  }),
  commits: t.connection(
    {
      type: CommitRef,
      nullable: true,
      ...READS_GIT,
      description: 'Newest first. Only supports forward paging.',
      args: {
        ref: t.arg.string(),
        since: t.arg({ type: 'Time' }),
        until: t.arg({ type: 'Time' }),
        path: t.arg.string(),
        author: t.arg.string(),
      },
      resolve: (project, args, ctx, info) =>
        connection(args, info, async (page) => {
          if (page.backwards || page.before)
            throw badRequest('commits only support forward paging: use first and after');
          const filter = {
            ref_name: args.ref ?? undefined,
            since: args.since ?? undefined,
            until: args.until ?? undefined,
            path: args.path ?? undefined,
            author: args.author ?? undefined,
          };
          const offset = page.after === null ? 0 : offsetOf(page.after[0]);
          const window = { limit: page.limit + 1, offset };
          const commits = page.wants.rows ? await listCommits(ctx, project, filter, window) : [];
          const rows = commits.map((commit, at) => ({ ...commit, project, at: offset + at + 1 }));
          return pageOf(page, rows, {
            cursorOf: ({ at }) => [at],
            count: () => countCommits(ctx, project, filter),
          });
        }),
    },
    CommitConnection,
  ),
}));

const offsetOf = (value: unknown): number => {
  const offset = Number(value);
  if (!Number.isSafeInteger(offset) || offset < 0) throw badRequest('The cursor is invalid for this list');
  return offset;
};
