import type { JudgedProject } from '#domains/projects/policy.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { type ListPage, type PageWanted, pageOf } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import type { Ref } from '#platform/git/refs.ts';
import { collaborationBranches, onlyBranches } from '../collaboration.ts';
import type { RepositoryProject } from '../model.ts';
import { mayPushTo } from '../policy.ts';
import { protectionsByProjects, type ReadProtections, readProtections } from '../protections.ts';

const loadProtections = loader(protectionsByProjects);
const loadCollaboration = loader(collaborationBranches);

/** Reads the protections of the projects of a list together. */
export const batchedProtections: ReadProtections = async (ctx, projectId) =>
  (await loadProtections(ctx, projectId)) ?? readProtections(ctx, projectId);

/** Returns whether the caller may push to the branch. Reads the rights for the projects of a list together. */
export const mayPushToBatched = async (
  ctx: Context,
  project: JudgedProject & Pick<ProjectRow, 'id'>,
  branch: string,
): Promise<boolean> => {
  const [protections, only] = await Promise.all([
    batchedProtections(ctx, project.id),
    onlyBranches(ctx, project, loadCollaboration),
  ]);
  return mayPushTo(ctx, project, { protections, only }, branch);
};

/**
 * Starts reading the protections at once, so that those of all repositories on a page are read in one statement. Later,
 * when git has answered, each repository would ask alone.
 */
export const protectionsAhead = (ctx: Context, { id }: Pick<ProjectRow, 'id'>): ReadProtections => {
  const reading = loadProtections(ctx, id);
  reading.catch(() => {}); // reported to the caller that awaits it, if any
  return async () => (await reading) ?? readProtections(ctx, id);
};

/** The same for all that decides who may push to branches. */
export const pushRightsAhead = (ctx: Context, project: RepositoryProject) => {
  const reading = onlyBranches(ctx, project, loadCollaboration);
  reading.catch(() => {}); // as above
  return { protectionsOf: protectionsAhead(ctx, project), onlyBranchesOf: () => reading };
};

/** A row with what its fields read of the project. */
export type InProject<T, Project = RepositoryProject> = T & { readonly project: Project };

/** Reading a repository costs more than reading a row. */
export const READS_GIT = { extensions: { cost: 5 } } as const;

/** Returns a page of refs whose details are read in one pass. */
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

export const inProject = <T extends object, Project>(project: Project, all: readonly T[]): InProject<T, Project>[] =>
  all.map((each) => ({ ...each, project }));

export const projectAt = (ctx: Context, path: string): Promise<ProjectRow> => getProject(ctx, { path });
