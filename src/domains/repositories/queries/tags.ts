import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOfRows } from '#platform/db/list.ts';
import { badParameters, notFound } from '#platform/errors.ts';
import type { Ref } from '#platform/git/types.ts';
import type { SortDirection } from '#platform/paging.ts';
import { TAGS, type Tag, tagRef } from '../model.ts';
import { matching, type ReadProtections, readProtections } from '../protections.ts';
import { filterNames, searchTest } from './names.ts';

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
export const listTags = async (ctx: Context, project: ProjectRow, filter: TagFilter): Promise<List<Ref>> => {
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
  project: ProjectRow,
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
  project: ProjectRow,
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
