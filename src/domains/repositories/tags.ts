import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOfRows } from '#platform/db/list.ts';
import { badParameters, notFound } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import type { Ref } from '#platform/git/refs.ts';
import type { SortDirection } from '#platform/paging.ts';
import { only } from '#platform/values/only.ts';
import { type RefUpdate, type RepositoryProject, TAGS, type Tag, tagRef } from './model.ts';
import { judgePush } from './policy.ts';
import { matching, type ReadProtections, readProtections } from './protections.ts';
import { filterNames, searchTest } from './queries/names.ts';
import { resolveRevision } from './queries/revisions.ts';
import { callerIdentity, refusal, requireMove, SOME_OID, writeRef } from './writing.ts';

export interface TagFilter {
  /** Part of the name, case-insensitive. `^term` matches at the start, `term$` at the end. */
  readonly search?: string | undefined;
  /** `updated` sorts by the time of the tag, or of the commit for a lightweight tag. */
  readonly order_by?: (typeof TAG_ORDERS)[number] | undefined;
  readonly sort?: SortDirection | undefined;
  /** The name after which the page starts. The list must contain it. */
  readonly page_token?: string | undefined;
}

export const TAG_ORDERS = ['name', 'updated', 'version'] as const;

/** Returns tags, by default the newest first. Rows are bare refs: complete those of a page with `completeTags`. */
export const listTags = async (ctx: Context, project: RepositoryProject, filter: TagFilter): Promise<List<Ref>> => {
  requireAbility(ctx, project, 'read_code');
  const { order_by = 'updated', sort = 'desc', page_token } = filter;
  const order = order_by === 'name' ? 'name' : (`${order_by === 'updated' ? 'created' : 'version'}_${sort}` as const);
  const refs = await ctx.services.git.listRefs(project.disk_path, { prefix: TAGS, order, signal: ctx.signal });
  const test = searchTest(filter.search);
  const found = test ? await filterNames(refs, TAGS.length, test) : refs;
  const ordered = order === 'name' && sort === 'desc' ? found.toReversed() : found;
  if (page_token !== undefined && !ordered.some(({ name }) => name === tagRef(page_token))) {
    throw badParameters('page_token is invalid');
  }
  return listOfRows(ordered, (ref) => ref.name.slice(TAGS.length));
};

export interface TagReading {
  readonly protectionsOf?: ReadProtections;
  /** If false, releases are not read and `release` is null. */
  readonly releases?: boolean;
}

/** Reads the details of tags, in one pass for a whole page. */
export const completeTags = async (
  ctx: Context,
  project: RepositoryProject,
  refs: readonly Ref[],
  { protectionsOf = readProtections, releases: withReleases = true }: TagReading = {},
): Promise<Tag[]> => {
  if (refs.length === 0) return [];
  const names = refs.map((ref) => ref.name.slice(TAGS.length));
  const [tagObjects, commits, protections, releases] = await Promise.all([
    ctx.services.git.readTagObjects(
      project.disk_path,
      refs.filter((ref) => ref.oid !== ref.peeledOid).map((ref) => ref.oid),
    ),
    ctx.services.git.readCommits(
      project.disk_path,
      refs.map((ref) => ref.peeledOid),
    ),
    protectionsOf(ctx, project.id),
    withReleases && can(ctx, project, 'read_release')
      ? ctx.db
          .selectFrom('releases')
          .select(['tag as tag_name', 'description'])
          .where('project_id', '=', project.id)
          .where('tag', 'in', names)
          .execute()
      : [],
  ]);
  const objectById = new Map(tagObjects.map((object) => [object.id, object]));
  const commitById = new Map(commits.map((commit) => [commit.id, commit]));
  const releaseByTag = new Map(releases.map((release) => [release.tag_name, release]));
  return refs.map((ref, at) => {
    const name = names[at] ?? '';
    return {
      name,
      target: ref.oid,
      message: objectById.get(ref.oid)?.message ?? '',
      created_at: objectById.get(ref.oid)?.tagged_date ?? null,
      protected: matching(protections.tags, name).length > 0,
      commit: commitById.get(ref.peeledOid) ?? null,
      release: releaseByTag.get(name) ?? null,
    };
  });
};

/** @throws DomainError `not_found` (Tag) */
export const getTag = async (
  ctx: Context,
  project: RepositoryProject,
  name: string,
  reading: TagReading = {},
): Promise<Tag> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const oid = await git.resolve(project.disk_path, tagRef(name));
  if (oid === null) throw notFound('Tag');
  const [commit] = await git.readCommits(project.disk_path, [oid]);
  const ref = { name: tagRef(name), oid, peeledOid: commit?.id ?? oid, message: null };
  const [tag] = await completeTags(ctx, project, [ref], reading);
  if (!tag) throw notFound('Tag');
  return tag;
};

interface NewTag {
  readonly tag: string;
  /** A branch, tag or commit. */
  readonly ref: string;
  /** Makes the tag annotated, with the caller as its tagger. */
  readonly message?: string | null | undefined;
}

/**
 * Creates a tag. Protection and events are as for a push.
 *
 * @throws DomainError `forbidden`, `bad_request` for a bad or taken name and for a missing start
 */
export const createTag = async (ctx: Context, project: ProjectRow, { tag, ref, message }: NewTag): Promise<Tag> => {
  requireAbility(ctx, project, 'push_code');
  if (!validRefName(tag)) throw refusal('Tag name invalid');
  const { git } = ctx.services;
  const commit = ref === '' ? null : await resolveRevision(ctx, project, ref);
  if (commit === null) throw refusal(`Target ${ref} is invalid`);
  const { newOid: oid } = await writeRef(ctx, project, async (current) => {
    const update = { ref: tagRef(tag), oldOid: null, newOid: commit };
    if ((await git.resolve(current.disk_path, update.ref)) !== null) throw refusal(`Tag ${tag} already exists`);
    const { judge } = await requireMove(ctx, current, update);
    if (message == null || message === '') {
      await judge?.(commit, git.newObjects(current.disk_path));
      return update;
    }
    const tagger = await callerIdentity(ctx);
    const newOid = await git.createTagObject(current.disk_path, { name: tag, commit, message, tagger }, judge);
    return { ...update, newOid };
  });
  return only(await completeTags(ctx, project, [{ name: tagRef(tag), oid, peeledOid: commit, message: null }]));
};

/**
 * Deletes a tag. Its release is deleted soon after.
 *
 * @throws DomainError `forbidden` if it is protected, `not_found` (Tag)
 */
export const deleteTag = async (ctx: Context, project: ProjectRow, name: string): Promise<Tag> => {
  requireAbility(ctx, project, 'push_code');
  const tag = await getTag(ctx, project, name);
  await writeRef(ctx, project, async (current) => {
    const ref = tagRef(name);
    const oldOid = await ctx.services.git.resolve(current.disk_path, ref);
    if (oldOid === null) throw notFound('Tag');
    const update: RefUpdate = { ref, oldOid, newOid: null };
    await requireMove(ctx, current, update);
    return update;
  });
  return tag;
};

/** Returns why the caller may not create the tag, or null. Releases of protected tags follow the same rules. */
export const refusalOfTagName = async (ctx: Context, project: ProjectRow, tag: string): Promise<string | null> => {
  const update: RefUpdate = { ref: tagRef(tag), oldOid: null, newOid: SOME_OID };
  const [refused] = (await judgePush(ctx, project, [update], null)).refused ?? [];
  return refused?.reason ?? null;
};
