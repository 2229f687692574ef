import type { z } from 'zod';
import { withCustomAttributes } from '#domains/custom-attributes/rest.ts';
import type { Context } from '#platform/context.ts';
import { type Page, type PageRequest, readPage } from '#platform/paging.ts';
import type { EncodedJson } from '#rest/encoded-json.ts';
import { type DetailPart, listProjectDetails, listProjects, type ProjectFilter, ROW } from '../queries.ts';
import { type anyProjectRecord, toProjectRecords, toSimpleProject } from '../record.ts';
import { toEncodedProjects, toEncodedSimpleProjects } from './encoded.ts';

/** Anonymous callers get the simple record. */
export const isAnonymous = ({ actor }: Context): boolean => actor.userId === null && !actor.isSystem;

type ProjectItem = z.output<typeof anyProjectRecord> | EncodedJson<z.output<typeof anyProjectRecord>>;

/** Returns the page's records, in the form that the caller gets. */
export const projectPage = async (
  ctx: Context,
  given: ProjectFilter,
  page: PageRequest,
  {
    simple = false,
    with_custom_attributes = false,
    extra = [],
  }: {
    readonly simple?: boolean | undefined;
    readonly with_custom_attributes?: boolean | undefined;
    readonly extra?: readonly DetailPart[];
  } = {},
): Promise<Page<ProjectItem>> => {
  // A keyset page is ordered by id only.
  const filter: ProjectFilter = page.kind === 'keyset' ? { ...given, order_by: 'id' } : given;
  const withAttributes = with_custom_attributes && ctx.actor.isAdmin;
  if (simple || isAnonymous(ctx)) {
    const found = await readPage(listProjects(ctx, filter, ROW), page);
    if (!withAttributes) return { ...found, items: toEncodedSimpleProjects(ctx, found.items) };
    const records = found.items.map((row) => toSimpleProject(ctx, row));
    return { ...found, items: await withCustomAttributes(ctx, 'projects', records, true) };
  }
  const found = await readPage(listProjectDetails(ctx, filter, ...extra), page);
  if (!withAttributes) return { ...found, items: await toEncodedProjects(ctx, found.items) };
  const records = await toProjectRecords(ctx, found.items);
  return { ...found, items: await withCustomAttributes(ctx, 'projects', records, true) };
};
