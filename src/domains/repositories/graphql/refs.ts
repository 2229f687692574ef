import type { ProjectRow } from '#domains/projects/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import { type ListPage, type PageWanted, pageOf } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import type { Ref } from '#platform/git/types.ts';
import { protectionsByProjects, type ReadProtections, readProtections } from '../protections.ts';

const loadProtections = loader(protectionsByProjects);

/**
 * Of the repositories on a page in one statement: reading begins at once, as later, when git has answered, each comes by
 * itself.
 */
export const protectionsAhead = (ctx: Context, { id }: ProjectRow): ReadProtections => {
  const reading = loadProtections(ctx, id);
  reading.catch(() => {}); // told to who waits for it; nobody may
  return async () => (await reading) ?? readProtections(ctx, id);
};

export type InProject<T> = T & { readonly project: ProjectRow };

/** Reading a repository costs more than a row. */
export const READS_GIT = { extensions: { cost: 5 } } as const;

/** A page of refs, completed in one pass. */
export const pageOfRefs = async <T extends { readonly name: string }>(
  page: PageWanted,
  list: List<Ref>,
  complete: (refs: readonly Ref[]) => Promise<T[]>,
  refOf: (name: string) => string,
): Promise<ListPage<T>> => {
  const { limit, ...window } = page;
  const fetched = page.wants.rows ? await list.rows({ limit: limit + 1, ...window }) : [];
  const cut = pageOf(page, fetched, { cursorOf: list.cursorOf, count: 0 });
  return {
    ...cut,
    rows: await complete(cut.rows),
    cursorOf: ({ name }) => [refOf(name)],
    count: () => list.count(Number.MAX_SAFE_INTEGER),
  };
};

export const inProject = <T extends object>(project: ProjectRow, all: readonly T[]): InProject<T>[] =>
  all.map((each) => ({ ...each, project }));

export const projectAt = (ctx: Context, path: string): Promise<ProjectRow> => getProject(ctx, { path });
