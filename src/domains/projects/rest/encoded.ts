import { openFrom } from '#domains/access/policy.ts';
import { defineCache } from '#platform/cache.ts';
import type { Actor, Context } from '#platform/context.ts';
import { EncodedJson } from '#rest/encoded-json.ts';
import type { ProjectNamespace } from '../model.ts';
import type { ProjectDetails, ProjectRow } from '../queries.ts';
import {
  descriptionHtmls,
  type ProjectRecord,
  projectRecordWith,
  type SimpleProjectRecord,
  toSimpleProject,
} from '../record.ts';

/**
 * Returns records that are ready to send. Each is serialised once for each version of its row and each view of it
 * (docs/decisions/0007). Records with rare or secret parts are not cached.
 */
export const toEncodedProjects = async (
  ctx: Context,
  projects: readonly ProjectDetails[],
): Promise<(ProjectRecord | EncodedJson<ProjectRecord>)[]> => {
  const htmls = await descriptionHtmls(ctx, projects);
  return projects.map((project, index) => {
    const html = htmls[index] ?? '';
    const make = () => projectRecordWith(ctx, project, html);
    // References in the description are links only for callers who can see what they name.
    return isPlain(project)
      ? written(ctx, fullTexts, project, `${viewOf(ctx.actor, project)}\0${partsOf(project)}\0${html}`, make)
      : make();
  });
};

/** The same for the simple form. */
export const toEncodedSimpleProjects = (
  ctx: Context,
  projects: readonly ProjectRow[],
): (SimpleProjectRecord | EncodedJson<SimpleProjectRecord>)[] =>
  projects.map((project) =>
    written(ctx, simpleTexts, project, viewOf(ctx.actor, project), () => toSimpleProject(ctx, project)),
  );

/** Returns true if the record depends on nothing beyond the row, `viewOf` and `partsOf`. */
const isPlain = (project: ProjectDetails): boolean =>
  !project.forked_from && !project.owner && !project.runners_token && !project.statistics;

/** The caller's view: everything that policy.ts reads of the caller. */
const viewOf = (actor: Actor, { access_level, namespace }: ProjectRow): string =>
  `${actor.isAdmin}\0${actor.userId === null}\0${openFrom(actor)}\0${openFrom(actor, 'write')}\0${access_level}\0${namespaceText(namespace)}`;

/** The namespace's columns. None of them can hold a NUL. */
const namespaceText = (namespace: ProjectNamespace): string => {
  const { id, name, path, kind, full_path, full_name, parent_id, deletion_marked_on, avatar_key } = namespace;
  return [id, name, path, kind, full_path, full_name, parent_id, deletion_marked_on, avatar_key].join('\0');
};

const partsOf = (project: ProjectDetails): string =>
  `${project.project_access}\0${project.group_access}\0${project.import_status}\0${project.import_error}\0${sharesText(project)}`;

const sharesText = ({ shared_with_groups: shares }: ProjectDetails): string =>
  shares.length === 0 ? '' : JSON.stringify(shares);

/** The texts of the views of a row, by its version. Bounded by bytes, because a record can hold long texts. */
const defineTexts = <R>() =>
  defineCache<object, ReadonlyMap<string, EncodedJson<R>>>({
    name: 'texts of projects',
    limit: 32 * 1024 * 1024,
    weightOf: (views) => [...views.values()].reduce((sum, { bytes }) => sum + bytes.length, 0),
  });
const fullTexts = defineTexts<ProjectRecord>();
const simpleTexts = defineTexts<SimpleProjectRecord>();

/** Few views of one version are in use at a time, and texts are large. */
const MAX_VIEWS = 3;

const written = <R>(
  { services }: Context,
  textsOf: ReturnType<typeof defineTexts<R>>,
  { remembered }: ProjectRow,
  view: string,
  make: () => R,
): R | EncodedJson<R> => {
  if (!remembered) return make();
  const texts = textsOf(services);
  const views = texts.get(remembered);
  const known = views?.get(view);
  if (known) return known;
  const text = new EncodedJson(make());
  texts.set(remembered, new Map([...(views && views.size < MAX_VIEWS ? views : []), [view, text]]));
  return text;
};
