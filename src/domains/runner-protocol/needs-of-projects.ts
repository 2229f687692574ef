import { sql } from 'kysely';
import { canDownload } from '#domains/artifacts/policy.ts';
import { accessOf, type FoundArtifact } from '#domains/artifacts/queries.ts';
import type { Dependency } from '#domains/ci/dependencies.ts';
import type { JobRow } from '#domains/ci/queries.ts';
import type { CompiledJob, Variable } from '#domains/ci-config/model.ts';
import { expandText, expandVariables, valuesOf } from '#domains/ci-config/variables.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Actor, Tx } from '#platform/context.ts';
import type { JobActors } from './job-actors.ts';

interface NeedyJob {
  readonly job: JobRow;
  readonly options: CompiledJob;
  /** The variables that the needs may refer to, lowest precedence first. */
  readonly variables: readonly Variable[];
}

/**
 * Returns the jobs of other projects whose archives these jobs get (`needs:project`), by id of the job: null for each
 * need without one. Each project is looked up once for each user, and one statement finds all archives.
 *
 * @throws UnknownActors
 */
export const readNeedsOfProjects = async (
  tx: Tx,
  jobs: readonly NeedyJob[],
  actors: JobActors,
): Promise<ReadonlyMap<number, readonly (Dependency | null)[]>> => {
  const needs = jobs.flatMap(needsOf);
  if (needs.length === 0) return new Map();
  const projects = await reachedProjects(tx, needs, actors);
  const archives = await findArchives(
    tx,
    needs.map(({ ref, name }, place) => ({ ref, name, project_id: projects[place]?.project.id ?? null })),
  );
  const found = needs.map(({ job }, place) => {
    const [reached, archive] = [projects[place], archives.get(place)];
    return { job, dependency: reached && archive ? dependencyOf(reached, archive) : null };
  });
  const byJob = Map.groupBy(found, ({ job }) => job.id);
  return new Map([...byJob].map(([id, all]) => [id, all.map(({ dependency }) => dependency)]));
};

const needsOf = ({ job, options, variables }: NeedyJob): NeedOfProject[] => {
  const needs = options.cross_needs.filter(({ project, artifacts }) => project !== null && artifacts);
  if (needs.length === 0) return [];
  const valueFor = valuesOf(expandVariables<Variable>(variables));
  const expand = (text: string | null) => expandText(text ?? '', valueFor);
  return needs.map(({ project, ref, job: name }) => ({
    ...{ job, project: expand(project), ref: expand(ref), name: expand(name) },
  }));
};

interface NeedOfProject {
  readonly job: JobRow;
  /** Its full path. */
  readonly project: string;
  /** A branch or tag. */
  readonly ref: string;
  readonly name: string;
}

interface FoundJob extends Pick<FoundArtifact, 'filename' | 'size' | 'access'>, Omit<Dependency, 'archive'> {
  readonly place: number;
}

interface ReachedProject {
  readonly actor: Actor;
  readonly project: ProjectRow;
}

/**
 * Returns the project of each need as the token of the job sees it: the user of the job must be able to read it, and it
 * must accept the token. Null if not.
 */
const reachedProjects = async (
  tx: Tx,
  needs: readonly NeedOfProject[],
  actors: JobActors,
): Promise<(ReachedProject | null)[]> => {
  const known = new Map<string, ReachedProject | null>();
  const keyOf = ({ job, project }: NeedOfProject) => `${job.user_id} ${job.project_id} ${project}`;
  const users = actors.of(needs.map(({ job }) => job));
  for (const [place, need] of needs.entries()) {
    const key = keyOf(need);
    const actor = users[place];
    if (!known.has(key)) known.set(key, actor ? await reach(tx, actor, need.project) : null);
  }
  return needs.map((need) => known.get(keyOf(need)) ?? null);
};

const reach = async (tx: Tx, actor: Actor, path: string): Promise<ReachedProject | null> => {
  const project = await findProject(tx.as(actor), { path });
  return project && { actor, project };
};

/** Finds the newest successful job with an archive for each need, by the place of the need. */
const findArchives = async (
  { db }: Tx,
  needs: readonly { readonly project_id: number | null; readonly ref: string; readonly name: string }[],
): Promise<ReadonlyMap<number, FoundJob>> => {
  const { rows } = await sql<FoundJob>`
    select need.place::integer - 1 as place, found.*
    from unnest(${needs.map(({ project_id }) => project_id)}::bigint[], ${needs.map(({ ref }) => ref)}::text[],
        ${needs.map(({ name }) => name)}::text[]) with ordinality as need (project_id, ref, name, place)
      cross join lateral (
        select d.id, d.name, a.filename, a.size, a.access,
          not a.locked and coalesce(a.expire_at <= now(), false) as is_gone
        from pipelines p join jobs d on d.pipeline_id = p.id
          join job_artifacts a on a.job_id = d.id and a.file_type = 'archive'
        where p.project_id = need.project_id and p.ref = need.ref and p.merge_request_id is null
          and d.kind = 'build' and d.name = need.name and d.status = 'success' and not d.retried
        order by p.id desc limit 1
      ) as found`.execute(db);
  return new Map(rows.map((row) => [row.place, row]));
};

/** Returns the archive as a dependency, or null if the token may not download it. */
const dependencyOf = ({ actor, project }: ReachedProject, found: FoundJob): Dependency | null => {
  if (!canDownload({ actor }, project, accessOf(found))) return null;
  const { id, name, is_gone, filename, size } = found;
  return { id, name, is_gone, archive: { filename, size } };
};
