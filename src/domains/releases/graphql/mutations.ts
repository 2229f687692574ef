import { getProject } from '#domains/projects/queries.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { LinkType } from '../attributes.ts';
import { createRelease, deleteRelease, updateRelease } from '../commands.ts';
import { ReleaseAssetLink, ReleaseAssetLinkType, ReleaseRef } from '../graphql.ts';
import { createLink, deleteLink, getLinkPlace, updateLink } from '../links.ts';
import { getRelease } from '../queries.ts';

const linkFields = (t: InputFields) => ({
  directAssetPath: t.string({ description: 'The path of the link below the release, such as `/binaries/linux`.' }),
  linkType: t.field({ type: ReleaseAssetLinkType }),
});

const LinkInput = builder.inputType('ReleaseAssetLinkInput', {
  fields: (t) => ({ name: t.string({ required: true }), url: t.string({ required: true }), ...linkFields(t) }),
});

const AssetsInput = builder.inputType('ReleaseAssetsInput', {
  fields: (t) => ({ links: t.field({ type: [LinkInput] }) }),
});

interface LinkMore {
  readonly directAssetPath?: string | null | undefined;
  readonly linkType?: LinkType | null | undefined;
}

const moreOf = ({ directAssetPath, linkType }: LinkMore) => ({
  filepath: directAssetPath,
  link_type: linkType ?? undefined,
});

const attributes = (t: InputFields) => ({
  name: t.string(),
  description: t.string(),
  releasedAt: t.field({ type: 'Time', description: 'A future time makes it an upcoming release.' }),
  milestones: t.stringList({ description: 'Titles of milestones of the project or of groups above it.' }),
});

const place = (t: InputFields) => ({ projectPath: t.id({ required: true }), tagName: t.string({ required: true }) });

mutationField('releaseCreate', {
  description: 'Creates a release for a tag. The tag is created from `ref` if it does not exist.',
  input: (t) => ({
    ...place(t),
    ref: t.string({ description: 'The branch, tag or commit to create the tag from.' }),
    tagMessage: t.string({ description: 'Creates an annotated tag with this message.' }),
    ...attributes(t),
    assets: t.field({ type: AssetsInput }),
  }),
  payload: { release: ReleaseRef },
  run: async (ctx, { projectPath, tagName, ref, tagMessage, name, description, releasedAt, milestones, assets }) => {
    const project = await getProject(ctx, { path: projectPath });
    const release = await createRelease(ctx, project, {
      tag_name: tagName,
      ref,
      tag_message: tagMessage,
      name,
      description,
      released_at: releasedAt ?? undefined,
      milestones,
      links: assets?.links?.map((link) => ({ name: link.name, url: link.url, ...moreOf(link) })),
    });
    return { release };
  },
});

mutationField('releaseUpdate', {
  description: 'Changes a release.',
  input: (t) => ({ ...place(t), ...attributes(t) }),
  payload: { release: ReleaseRef },
  run: async (ctx, { projectPath, tagName, name, description, releasedAt, milestones }) => {
    const project = await getProject(ctx, { path: projectPath });
    const changes = { name, description, released_at: releasedAt ?? undefined, milestones };
    return { release: await updateRelease(ctx, project, tagName, changes) };
  },
});

mutationField('releaseDelete', {
  description: 'Deletes a release. Its tag stays.',
  input: place,
  payload: { release: ReleaseRef },
  run: async (ctx, { projectPath, tagName }) => {
    const project = await getProject(ctx, { path: projectPath });
    const release = await getRelease(ctx, project, tagName);
    await deleteRelease(ctx, project, tagName);
    return { release };
  },
});

mutationField('releaseAssetLinkCreate', {
  description: 'Adds a link to a release.',
  input: (t) => ({
    ...place(t),
    name: t.string({ required: true }),
    url: t.string({ required: true }),
    ...linkFields(t),
  }),
  payload: { link: ReleaseAssetLink },
  run: async (ctx, { projectPath, tagName, name, url, ...more }) => {
    const project = await getProject(ctx, { path: projectPath });
    const link = await createLink(ctx, project, tagName, { name, url, ...moreOf(more) });
    return { link: { ...link, project_id: project.id, tag: tagName } };
  },
});

mutationField('releaseAssetLinkUpdate', {
  description: 'Changes a link of a release.',
  input: (t) => ({
    id: t.field({ type: 'ReleasesLinkID', required: true }),
    name: t.string(),
    url: t.string(),
    ...linkFields(t),
  }),
  payload: { link: ReleaseAssetLink },
  run: async (ctx, { id, name, url, ...more }) => {
    const { project, tag } = await getLinkPlace(ctx, id);
    const changes = { name: name ?? undefined, url: url ?? undefined, ...moreOf(more) };
    const link = await updateLink(ctx, project, tag, id, changes);
    return { link: { ...link, project_id: project.id, tag } };
  },
});

mutationField('releaseAssetLinkDelete', {
  description: 'Deletes a link of a release.',
  input: (t) => ({ id: t.field({ type: 'ReleasesLinkID', required: true }) }),
  payload: { link: ReleaseAssetLink },
  run: async (ctx, { id }) => {
    const { project, tag } = await getLinkPlace(ctx, id);
    const link = await deleteLink(ctx, project, tag, id);
    return { link: { ...link, project_id: project.id, tag } };
  },
});
