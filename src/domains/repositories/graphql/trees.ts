import { builder } from '#graphql/builder.ts';
import { connection, listConnection, type PageWanted, pageOfAll } from '#graphql/connection.ts';
import { orNull } from '#graphql/errors.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import { type BlobEntry, blobsAt, isExecutable, textOf } from '../files.ts';
import { CommitRef } from '../graphql.ts';
import { contentPath } from '../model.ts';
import { type Folder, getFolder, getTree, lastCommitOfFolder, listEntries, type TreeEntry } from '../queries/trees.ts';
import { type InProject, READS_GIT } from './refs.ts';
import { RepositoryRef } from './repository.ts';

const EntryType = builder.enumType('EntryType', {
  values: { tree: { value: 'tree' }, blob: { value: 'blob' }, commit: { value: 'commit' } } as const,
});

type Entry = InProject<TreeEntry> & { readonly revision: string };

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** Defines an entry type with the fields that all three kinds share. */
const entryType = (name: 'Blob' | 'TreeEntry' | 'Submodule', description: string) =>
  builder.objectRef<Entry>(name).implement({
    description,
    fields: (t) => ({
      id: t.id({ nullable: false, resolve: ({ oid }) => `gid://gitlab/${name}/${oid}` }),
      sha: t.exposeString('oid', { nullable: false }),
      name: t.string({ nullable: false, resolve: ({ path }) => nameOf(path) }),
      type: t.field({ type: EntryType, nullable: false, resolve: ({ type }) => type }),
      path: t.exposeString('path', { nullable: false }),
      flatPath: t.exposeString('path', { nullable: false }),
    }),
  });

const TreeEntryRef = entryType('TreeEntry', 'A folder.');
const BlobRef = entryType('Blob', 'A file in a folder.');
const SubmoduleRef = entryType('Submodule', 'A commit of another repository.');

const address = (kind: 'blob' | 'tree') => (entry: Entry) =>
  contentPath(entry.project, kind, entry.revision, entry.path);
for (const [ref, kind] of [
  [TreeEntryRef, 'tree'],
  [BlobRef, 'blob'],
] as const) {
  builder.objectFields(ref, (t) => ({
    webPath: t.string({ resolve: address(kind) }),
    webUrl: t.string({ resolve: (entry, _args, ctx) => ctx.services.urls.base + address(kind)(entry) }),
  }));
}
builder.objectField(BlobRef, 'mode', (t) => t.exposeString('mode'));

const BlobConnection = builder.connectionObject({ type: BlobRef, name: 'BlobConnection' }, { name: 'BlobEdge' });
const TreeEntryConnection = builder.connectionObject(
  { type: TreeEntryRef, name: 'TreeEntryConnection' },
  { name: 'TreeEntryEdge' },
);
const SubmoduleConnection = builder.connectionObject(
  { type: SubmoduleRef, name: 'SubmoduleConnection' },
  { name: 'SubmoduleEdge' },
);

interface Tree extends InProject<Folder> {
  readonly revision: string;
  readonly recursive: boolean;
  /** The entries of one page of `paginatedTree`. Null if entries are read on demand. */
  readonly page: readonly Entry[] | null;
}

const entriesOf = (ctx: Context, tree: Tree, type: TreeEntry['type']) => {
  const { project, revision, recursive, page } = tree;
  if (page) {
    const rows = page.filter((entry) => entry.type === type);
    return {
      rows: async () => rows,
      count: async () => rows.length,
      cursorOf: ({ path }: Entry) => [path],
    };
  }
  const list = listEntries(ctx, project, tree, { recursive, type });
  return {
    rows: async (window: Parameters<typeof list.rows>[0]) =>
      (await list.rows(window)).map((entry) => ({ ...entry, project, revision })),
    count: list.count,
    cursorOf: ({ path }: Entry) => [path],
  };
};

const TreeRef = builder.objectRef<Tree>('Tree').implement({
  description: 'The content of a folder at one commit. It is empty for a file.',
  fields: (t) => ({
    lastCommit: t.field({
      type: CommitRef,
      nullable: true,
      ...READS_GIT,
      description: 'The last commit that changed the folder or file.',
      resolve: async (tree, _args, ctx) => {
        const commit = await lastCommitOfFolder(ctx, tree.project, tree);
        return commit && { ...commit, project: tree.project };
      },
    }),
    trees: t.connection(
      {
        type: TreeEntryRef,
        nullable: false,
        ...READS_GIT,
        resolve: (tree, args, ctx, info) => listConnection(args, info, entriesOf(ctx, tree, 'tree')),
      },
      TreeEntryConnection,
    ),
    blobs: t.connection(
      {
        type: BlobRef,
        nullable: false,
        ...READS_GIT,
        resolve: (tree, args, ctx, info) => listConnection(args, info, entriesOf(ctx, tree, 'blob')),
      },
      BlobConnection,
    ),
    submodules: t.connection(
      {
        type: SubmoduleRef,
        nullable: false,
        ...READS_GIT,
        resolve: (tree, args, ctx, info) => listConnection(args, info, entriesOf(ctx, tree, 'commit')),
      },
      SubmoduleConnection,
    ),
  }),
});
const TreeConnection = builder.connectionObject({ type: TreeRef, name: 'TreeConnection' }, { name: 'TreeEdge' });

type FileNode = InProject<BlobEntry> & { readonly revision: string };

const RepositoryBlobRef = builder.objectRef<FileNode>('RepositoryBlob').implement({
  description: 'A file of a repository.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ oid }) => `gid://gitlab/Blob/${oid}` }),
    oid: t.exposeString('oid', { nullable: false }),
    name: t.string({ resolve: ({ path }) => nameOf(path) }),
    path: t.exposeString('path', { nullable: false }),
    mode: t.exposeString('mode'),
    executable: t.boolean({ nullable: false, resolve: isExecutable }),
    size: t.field({ type: 'BigInt', description: 'In bytes.', resolve: ({ size }) => size }),
    rawSize: t.field({ type: 'BigInt', description: 'In bytes.', resolve: ({ size }) => size }),
    rawBlob: t.string({
      ...READS_GIT,
      description: 'The content. Null if it is not text or larger than 1 MiB.',
      resolve: (blob, _args, ctx) => textOf(ctx, blob.project, blob),
    }),
    rawTextBlob: t.string({
      ...READS_GIT,
      description: 'The content. Null if it is not text or larger than 1 MiB.',
      resolve: (blob, _args, ctx) => textOf(ctx, blob.project, blob),
    }),
    webPath: t.string({ resolve: ({ project, revision, path }) => contentPath(project, 'blob', revision, path) }),
    rawPath: t.string({ resolve: ({ project, revision, path }) => contentPath(project, 'raw', revision, path) }),
  }),
});
const RepositoryBlobConnection = builder.connectionObject(
  { type: RepositoryBlobRef, name: 'RepositoryBlobConnection' },
  { name: 'RepositoryBlobEdge' },
);

const revisionOf = (ref: string | null | undefined, commitOrDefault: string): string =>
  ref === null || ref === undefined || ref === '' || ref === 'HEAD' ? commitOrDefault : ref;

builder.objectFields(RepositoryRef, (t) => {
  const place = {
    path: t.arg.string({ description: 'Defaults to the root.' }),
    ref: t.arg.string({ description: 'A branch, tag or commit id. Defaults to the default branch.' }),
    recursive: t.arg.boolean({ description: 'Includes the content of all subfolders.' }),
  };
  return {
    tree: t.field({
      type: TreeRef,
      nullable: true,
      ...READS_GIT,
      args: place,
      resolve: async (project, { path, ref, recursive }, ctx) => {
        const folder = await orNull(getTree(ctx, project, { path: path ?? undefined, ref: ref ?? undefined }));
        const revision = revisionOf(ref, project.default_branch ?? 'HEAD');
        return folder && { ...folder, project, revision, recursive: recursive ?? false, page: null };
      },
    }),
    paginatedTree: t.connection(
      {
        type: TreeRef,
        nullable: true,
        ...READS_GIT,
        description: 'A page of the entries as one tree. Folders come first, then files, then submodules.',
        args: place,
        resolve: async (project, { path, ref, recursive, ...args }, ctx, info) => {
          const folder = await orNull(getFolder(ctx, project, { path: path ?? undefined, ref: ref ?? undefined }));
          if (!folder) return null;
          const revision = revisionOf(ref, project.default_branch ?? 'HEAD');
          const list = listEntries(ctx, project, folder, { recursive: recursive ?? false });
          return connection(args, info, async ({ limit, backwards, after, before }: PageWanted) => {
            const fetched = await list.rows({ limit: limit + 1, backwards, after, before });
            const cut = fetched.slice(0, limit);
            const rows = (backwards ? cut.toReversed() : cut).map((entry) => ({ ...entry, project, revision }));
            const more = fetched.length > limit;
            const tree: Tree = { ...folder, project, revision, recursive: recursive ?? false, page: rows };
            return {
              rows: rows.length === 0 ? [] : [tree],
              hasNext: backwards ? before !== null : more,
              hasPrevious: backwards ? more : after !== null,
              cursorOf: () => [(backwards ? rows[0] : rows.at(-1))?.path ?? ''],
              count: rows.length === 0 ? 0 : 1,
            };
          });
        },
      },
      TreeConnection,
    ),
    blobs: t.connection(
      {
        type: RepositoryBlobRef,
        nullable: true,
        ...READS_GIT,
        args: {
          paths: t.arg.stringList({ required: true, description: 'At most 100.' }),
          ref: t.arg.string({ description: 'A branch, tag or commit id. Defaults to the default branch.' }),
        },
        resolve: (project, { paths, ref, ...args }, ctx, info) =>
          connection(args, info, async (page) => {
            const files = await blobsAt(ctx, project, ref ?? undefined, wanted(paths));
            const revision = revisionOf(ref, project.default_branch ?? 'HEAD');
            const nodes = files.map((file) => ({ ...file, project, revision }));
            return pageOfAll(page, nodes, ({ path }) => [path]);
          }),
      },
      RepositoryBlobConnection,
    ),
    diskPath: t.string({
      nullable: true,
      description: 'The storage path. Only for administrators.',
      resolve: (project, _args, ctx) => (ctx.actor.isAdmin ? project.disk_path : null),
    }),
  };
});

const MAX_PATHS = 100;

const wanted = (paths: readonly string[]): readonly string[] => {
  if (paths.length > MAX_PATHS) throw badRequest(`paths must hold at most ${MAX_PATHS}`);
  return [...new Set(paths)];
};
