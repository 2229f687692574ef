import { builder } from '#graphql/builder.ts';
import { connection } from '#graphql/connection.ts';
import { orNull } from '#graphql/errors.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import type { Ref } from '#platform/git/refs.ts';
import { CommitRef } from '../graphql.ts';
import type { RepositoryProject, Tag } from '../model.ts';
import { completeTags, createTag, deleteTag, getTag, listTags } from '../tags.ts';
import { type InProject, inProject, pageOfRefs, projectAt, protectionsAhead, READS_GIT } from './refs.ts';
import { RepositoryRef } from './repository.ts';

const TagRef = builder.objectRef<InProject<Tag>>('Tag').implement({
  description: 'A tag of a repository.',
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    target: t.exposeString('target', { nullable: false }),
    message: t.exposeString('message', { nullable: true }),
    protected: t.exposeBoolean('protected', { nullable: false }),
    commit: t.field({
      type: CommitRef,
      nullable: true,
      resolve: ({ commit, project }) => commit && { ...commit, project },
    }),
  }),
});
const TagConnection = builder.connectionObject({ type: TagRef, name: 'TagConnection' }, { name: 'TagEdge' });

/** Skips releases, because tags have no release field in GraphQL. */
const readingOf = (ctx: Context, project: RepositoryProject) => ({
  protectionsOf: protectionsAhead(ctx, project),
  releases: false,
});

builder.objectFields(RepositoryRef, (t) => ({
  tags: t.connection(
    {
      type: TagRef,
      nullable: true,
      ...READS_GIT,
      args: { search: t.arg.string() },
      resolve: (project, args, ctx, info) =>
        connection(args, info, async (page) => {
          const reading = readingOf(ctx, project);
          const list = await listTags(ctx, project, {
            search: args.search ?? undefined,
            order_by: 'name',
            sort: 'asc',
          });
          const complete = async (refs: readonly Ref[]) =>
            inProject(project, await completeTags(ctx, project, refs, reading));
          return pageOfRefs(page, list, complete, (name) => name);
        }),
    },
    TagConnection,
  ),
  tag: t.field({
    type: TagRef,
    nullable: true,
    ...READS_GIT,
    args: { name: t.arg.string({ required: true }) },
    resolve: async (project, { name }, ctx) => {
      const tag = await orNull(getTag(ctx, project, name, readingOf(ctx, project)));
      return tag && { ...tag, project };
    },
  }),
}));

mutationField('tagCreate', {
  description: 'Creates a tag of a branch, tag or commit. With a message, the tag is annotated.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    name: t.string({ required: true }),
    ref: t.string({ required: true }),
    message: t.string(),
  }),
  payload: { tag: TagRef },
  run: async (ctx, { projectPath, name, ref, message }) => {
    const project = await projectAt(ctx, projectPath);
    return { tag: { ...(await createTag(ctx, project, { tag: name, ref, message })), project } };
  },
});

mutationField('tagDelete', {
  description: 'Deletes a tag that is not protected. Its release is deleted soon after.',
  input: (t) => ({ projectPath: t.id({ required: true }), name: t.string({ required: true }) }),
  payload: { tag: TagRef },
  run: async (ctx, { projectPath, name }) => {
    const project = await projectAt(ctx, projectPath);
    return { tag: { ...(await deleteTag(ctx, project, name)), project } };
  },
});
