import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOfRows } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { Ref } from '#platform/git/types.ts';
import { TAGS, type Tag, tagRef } from '../model.ts';
import { matching, readProtections } from '../protections.ts';
import { filterNames, searchTest } from './names.ts';

export interface TagFilter {
  readonly search?: string | undefined;
  readonly order_by?: 'name' | 'updated' | undefined;
  readonly sort?: 'asc' | 'desc' | undefined;
}

/** Tags, by default the newest first. Rows are refs alone: `completeTags` for a page. */
export const listTags = async (ctx: Context, project: ProjectRow, filter: TagFilter): Promise<List<Ref>> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const refs = await git.listRefs(project.disk_path, { prefix: TAGS, signal: ctx.signal });
  const test = searchTest(filter.search);
  const found = test ? await filterNames(refs, TAGS.length, test) : [...refs];
  if (filter.order_by !== 'name') {
    const commits = await git.readCommits(
      project.disk_path,
      found.map((ref) => ref.peeledOid),
    );
    const times = new Map(commits.map((commit) => [commit.id, Date.parse(commit.committed_date)]));
    found.sort((a, b) => (times.get(a.peeledOid) ?? 0) - (times.get(b.peeledOid) ?? 0));
  }
  return listOfRows(filter.sort === 'asc' ? found : found.toReversed(), (ref) => ref.name);
};

export const completeTags = async (ctx: Context, project: ProjectRow, refs: readonly Ref[]): Promise<Tag[]> => {
  if (refs.length === 0) return [];
  const names = refs.map((ref) => ref.name.slice(TAGS.length));
  const [commits, protections, releases] = await Promise.all([
    ctx.services.git.readCommits(
      project.disk_path,
      refs.map((ref) => ref.peeledOid),
    ),
    readProtections(ctx, project.id),
    can(ctx, project, 'read_release')
      ? ctx.db
          .selectFrom('releases')
          .select(['tag as tag_name', 'description'])
          .where('project_id', '=', project.id)
          .where('tag', 'in', names)
          .execute()
      : [],
  ]);
  const commitById = new Map(commits.map((commit) => [commit.id, commit]));
  const releaseByTag = new Map(releases.map((release) => [release.tag_name, release]));
  return refs.map((ref, at) => {
    const name = names[at] ?? '';
    return {
      name,
      target: ref.oid,
      message: ref.message ?? '',
      protected: matching(protections.tags, name).length > 0,
      commit: commitById.get(ref.peeledOid) ?? null,
      release: releaseByTag.get(name) ?? null,
    };
  });
};

/** @throws DomainError `not_found` (Tag) */
export const getTag = async (ctx: Context, project: ProjectRow, name: string): Promise<Tag> => {
  requireAbility(ctx, project, 'read_code');
  const refs = await ctx.services.git.listRefs(project.disk_path, {
    prefix: TAGS,
    match: (each) => tagRef(each) === tagRef(name),
  });
  const [tag] = await completeTags(ctx, project, refs);
  if (!tag) throw notFound('Tag');
  return tag;
};
