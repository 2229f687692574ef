import { sql } from 'kysely';
import { visibilityName } from '#domains/access/model.ts';
import type { CompiledJob } from '#domains/ci-config/model.ts';
import { ciConfigPathOf } from '#domains/projects/ci-config-path.ts';
import { type ProjectRow, projectWebUrl } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { Commit } from '#platform/git/objects.ts';
import { ZERO_OID } from '#platform/git/ref-names.ts';
import { VERSION } from '#platform/process/version.ts';
import { isoTime } from '#platform/time.ts';
import { apiUrl } from '#platform/urls.ts';
import { jobWebUrl, mergeRequestEventType } from './model.ts';

/** A variable that the hub defines. Its value holds no references to other variables. */
export interface PredefinedVariable {
  readonly key: string;
  readonly value: string;
}

/**
 * The facts that the predefined variables of a pipeline are made from. Those of a pipeline without row lack its
 * numbers.
 */
export interface PipelineFacts {
  readonly id: number | null;
  readonly iid: number | null;
  readonly name: string | null;
  readonly source: string;
  readonly created_at: string | null;
  /** The branch or tag, or the ref of a merge request. */
  readonly ref: string | null;
  readonly tag: boolean;
  readonly sha: string | null;
  readonly before_sha: string | null;
  readonly protected: boolean;
  readonly merge_request_id: number | null;
  /** The tips of both branches of a merged result. */
  readonly source_sha: string | null;
  readonly target_sha: string | null;
}

/** Returns a name in the form that host names can have (reference: ci §1). */
const slugOf = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '-')
    .slice(0, 63)
    .replace(/^-+|-+$/g, '');

/** Returns the variables by which a job knows itself before it has a row. */
export const compiledJobVariables = ({
  name,
  stage,
  parallel,
}: Pick<CompiledJob, 'name' | 'stage' | 'parallel'>): PredefinedVariable[] =>
  toVariables({
    CI_JOB_NAME: name,
    CI_JOB_NAME_SLUG: slugOf(name),
    CI_JOB_STAGE: stage,
    CI_NODE_INDEX: parallel?.index,
    CI_NODE_TOTAL: parallel?.total ?? 1,
  });

/** Returns the variables of a job that are known before a runner takes it. */
export const jobVariables = (
  ctx: Pick<Context, 'services'>,
  job: { readonly id: number; readonly name: string; readonly stage: string | null; readonly project_path: string },
  options: CompiledJob,
): PredefinedVariable[] => [
  ...toVariables({ CI_JOB_ID: job.id, CI_JOB_URL: jobWebUrl(ctx, job) }),
  ...compiledJobVariables({ name: job.name, stage: job.stage ?? options.stage, parallel: options.parallel }),
  ...toVariables({ CI_JOB_IMAGE: options.image?.name, CI_JOB_MANUAL: options.when === 'manual' ? true : null }),
];

/** A pipeline with the commit of its `sha`. */
interface PipelineWithCommit {
  readonly project: ProjectRow;
  readonly pipeline: PipelineFacts;
  readonly commit: Commit | null;
}

/** Returns the predefined variables of a pipeline, which all of its jobs get and the rules of its file see. */
export const predefinedVariables = async (
  ctx: Context,
  project: ProjectRow,
  pipeline: PipelineFacts,
  commit: Commit | null,
): Promise<PredefinedVariable[]> => (await predefinedVariablesOf(ctx, [{ project, pipeline, commit }]))[0] ?? [];

/** The same for many pipelines, in their order. */
export const predefinedVariablesOf = async (
  ctx: Context,
  all: readonly PipelineWithCommit[],
): Promise<PredefinedVariable[][]> => {
  const mergeRequests = await describeMergeRequests(
    ctx,
    all.flatMap(({ pipeline }) => pipeline.merge_request_id ?? []),
  );
  const described = all.map((each) => {
    const mergeRequest = mergeRequests.get(each.pipeline.merge_request_id ?? 0) ?? null;
    return { ...each, mergeRequest, ref: mergeRequest?.source_branch ?? each.pipeline.ref };
  });
  const opened = await openMergeRequests(
    ctx,
    described.map(({ project, pipeline, mergeRequest, ref }) => ({
      project_id: mergeRequest ? mergeRequest.source_project_id : project.id,
      branch: pipeline.tag ? null : ref,
    })),
  );
  const ofAll = ofInstance(ctx);
  return Promise.all(
    described.map(async ({ project, pipeline, commit, mergeRequest, ref }, place) => [
      ...ofAll,
      ...ofProject(ctx, project),
      { key: 'CI_CONFIG_PATH', value: await ciConfigPathOf(ctx, project) },
      ...ofPipeline(ctx, project, pipeline),
      ...ofCommit(project, { ...pipeline, ref }, commit),
      ...(mergeRequest ? ofMergeRequest(ctx, mergeRequest, pipeline) : []),
      ...toVariables({ CI_OPEN_MERGE_REQUESTS: opened.get(place)?.join(',') }),
    ]),
  );
};

type Values = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Leaves out what has no value. */
const toVariables = (values: Values): PredefinedVariable[] =>
  Object.entries(values).flatMap(([key, value]) => (value == null ? [] : [{ key, value: String(value) }]));

const ofInstance = (ctx: Pick<Context, 'services'>): PredefinedVariable[] => {
  const { base } = ctx.services.urls;
  const { protocol, host, hostname, port } = new URL(base);
  const scheme = protocol.slice(0, -1);
  const [major, minor, patch] = VERSION.split('.');
  return toVariables({
    CI: true,
    GITLAB_CI: true,
    CI_SERVER: 'yes',
    CI_SERVER_NAME: 'Millrace',
    CI_SERVER_URL: base,
    CI_SERVER_FQDN: host,
    CI_SERVER_HOST: hostname,
    CI_SERVER_PORT: port || (scheme === 'https' ? '443' : '80'),
    CI_SERVER_PROTOCOL: scheme,
    CI_SERVER_VERSION: VERSION,
    CI_SERVER_VERSION_MAJOR: major,
    CI_SERVER_VERSION_MINOR: minor,
    CI_SERVER_VERSION_PATCH: patch,
    CI_API_V4_URL: apiUrl(ctx, '').replace(/\/$/, ''),
    CI_API_GRAPHQL_URL: `${base}/api/graphql`,
  });
};

const ofProject = (ctx: Pick<Context, 'services'>, project: ProjectRow): PredefinedVariable[] =>
  toVariables({
    CI_PROJECT_ID: project.id,
    CI_PROJECT_NAME: project.path,
    CI_PROJECT_TITLE: project.name,
    CI_PROJECT_PATH: project.full_path,
    CI_PROJECT_PATH_SLUG: slugOf(project.full_path),
    CI_PROJECT_NAMESPACE: project.namespace.full_path,
    CI_PROJECT_NAMESPACE_ID: project.namespace_id,
    CI_PROJECT_ROOT_NAMESPACE: project.full_path.split('/')[0],
    CI_PROJECT_URL: projectWebUrl(ctx, project),
    CI_PROJECT_VISIBILITY: visibilityName(project.visibility_level),
    CI_DEFAULT_BRANCH: project.default_branch,
  });

const ofPipeline = (
  ctx: Pick<Context, 'services'>,
  project: ProjectRow,
  pipeline: PipelineFacts,
): PredefinedVariable[] =>
  toVariables({
    CI_PIPELINE_ID: pipeline.id,
    CI_PIPELINE_IID: pipeline.iid,
    CI_PIPELINE_URL: pipeline.id === null ? null : `${projectWebUrl(ctx, project)}/-/pipelines/${pipeline.id}`,
    CI_PIPELINE_SOURCE: pipeline.source,
    CI_PIPELINE_NAME: pipeline.name,
    CI_PIPELINE_CREATED_AT: pipeline.created_at === null ? null : isoTime(pipeline.created_at),
  });

const ofCommit = (project: ProjectRow, pipeline: PipelineFacts, commit: Commit | null): PredefinedVariable[] => {
  const { ref, tag, sha, merge_request_id } = pipeline;
  const isOfBranch = !tag && merge_request_id === null;
  return toVariables({
    CI_COMMIT_SHA: sha,
    CI_COMMIT_SHORT_SHA: sha?.slice(0, 8),
    CI_COMMIT_BEFORE_SHA: pipeline.before_sha ?? ZERO_OID,
    CI_COMMIT_REF_NAME: ref,
    CI_COMMIT_REF_SLUG: ref === null ? null : slugOf(ref),
    CI_COMMIT_BRANCH: isOfBranch ? ref : null,
    CI_COMMIT_TAG: tag ? ref : null,
    CI_COMMIT_REF_PROTECTED: pipeline.protected,
    CI_COMMIT_MESSAGE: commit?.message,
    CI_COMMIT_TITLE: commit?.title,
    CI_COMMIT_DESCRIPTION: commit && descriptionOf(commit),
    CI_COMMIT_TIMESTAMP: commit?.committed_date,
    CI_COMMIT_AUTHOR: commit && `${commit.author_name} <${commit.author_email}>`,
    CI_DEFAULT_BRANCH_SLUG: project.default_branch === null ? null : slugOf(project.default_branch),
  });
};

/** The message without its first line. */
const descriptionOf = ({ title, message }: Commit): string =>
  message.startsWith(title) ? message.slice(title.length).trim() : message;

interface MergeRequestFacts {
  readonly id: number;
  readonly iid: number;
  readonly project_id: number;
  readonly project_path: string;
  readonly source_project_id: number | null;
  readonly source_project_path: string | null;
  readonly source_branch: string;
  readonly target_branch: string;
  readonly title: string;
  readonly description: string | null;
  readonly draft: boolean;
  readonly squash: boolean;
  readonly diff_id: number | null;
  readonly base: string | null;
  readonly milestone: string | null;
  readonly labels: readonly string[];
  /** User names. */
  readonly assignees: readonly string[];
}

const describeMergeRequests = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, MergeRequestFacts>> => {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<MergeRequestFacts>`
    select m.id, m.iid, m.project_id, p.full_path as project_path, m.source_project_id, s.full_path as source_project_path,
      m.source_branch, m.target_branch, m.title, m.description, m.draft, m.squash, d.id as diff_id,
      d.base_commit_sha as base, (select ms.title from milestones ms where ms.id = m.milestone_id) as milestone,
      array(select u.username from merge_request_assignees a join users u on u.id = a.user_id
        where a.merge_request_id = m.id order by u.id) as assignees,
      array(select l.title from label_links k join labels l on l.id = k.label_id where k.merge_request_id = m.id
        order by l.title) as labels
    from merge_requests m join projects p on p.id = m.project_id
      left join projects s on s.id = m.source_project_id
      left join merge_request_diffs d on d.merge_request_id = m.id and d.is_latest
    where m.id = any (${ids}::bigint[])`.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
};

/** Longer descriptions would make the environments of jobs too large. */
const MAX_DESCRIPTION = 2_700;

/** The most merge requests that `CI_OPEN_MERGE_REQUESTS` names (reference: ci §1). */
const MAX_OPEN = 4;

/**
 * Returns the open merge requests of each branch, as `group/project!1`, by the place of the branch. Rules use them to run
 * one pipeline, not two. Branches without any are left out.
 */
const openMergeRequests = async (
  { db }: Pick<Context, 'db'>,
  branches: readonly { readonly project_id: number | null; readonly branch: string | null }[],
): Promise<Map<number, string[]>> => {
  const { rows } = await sql<{ place: number; named: string }>`
    select source.place, opened.named
    from unnest(${branches.map(({ project_id }) => project_id)}::bigint[],
        ${branches.map(({ branch }) => branch)}::text[]) with ordinality as source (project_id, branch, place)
      cross join lateral (
        select m.id, p.full_path || '!' || m.iid as named from merge_requests m join projects p on p.id = m.project_id
        where m.source_project_id = source.project_id and m.source_branch = source.branch and m.state = 'opened'
        order by m.id limit ${MAX_OPEN}
      ) as opened
    order by source.place, opened.id`.execute(db);
  const named = Map.groupBy(rows, ({ place }) => place - 1);
  return new Map([...named].map(([place, found]) => [place, found.map((each) => each.named)]));
};

const ofMergeRequest = (
  ctx: Pick<Context, 'services'>,
  row: MergeRequestFacts,
  pipeline: PipelineFacts,
): PredefinedVariable[] => {
  const event_type = mergeRequestEventType(pipeline);
  const isMerged = event_type === 'merged_result';
  const { source_project_path: source } = row;
  const description = row.description ?? '';
  return toVariables({
    CI_MERGE_REQUEST_ID: row.id,
    CI_MERGE_REQUEST_IID: row.iid,
    CI_MERGE_REQUEST_PROJECT_ID: row.project_id,
    CI_MERGE_REQUEST_PROJECT_PATH: row.project_path,
    CI_MERGE_REQUEST_PROJECT_URL: projectWebUrl(ctx, { full_path: row.project_path }),
    CI_MERGE_REQUEST_REF_PATH: pipeline.ref,
    CI_MERGE_REQUEST_SOURCE_PROJECT_ID: row.source_project_id,
    CI_MERGE_REQUEST_SOURCE_PROJECT_PATH: source,
    CI_MERGE_REQUEST_SOURCE_PROJECT_URL: source === null ? null : projectWebUrl(ctx, { full_path: source }),
    CI_MERGE_REQUEST_SOURCE_BRANCH_NAME: row.source_branch,
    CI_MERGE_REQUEST_SOURCE_BRANCH_SHA: isMerged ? pipeline.source_sha : '',
    CI_MERGE_REQUEST_TARGET_BRANCH_NAME: row.target_branch,
    CI_MERGE_REQUEST_TARGET_BRANCH_SHA: isMerged ? pipeline.target_sha : '',
    CI_MERGE_REQUEST_DIFF_ID: row.diff_id,
    CI_MERGE_REQUEST_DIFF_BASE_SHA: row.base,
    CI_MERGE_REQUEST_EVENT_TYPE: event_type,
    CI_MERGE_REQUEST_TITLE: row.title,
    CI_MERGE_REQUEST_DESCRIPTION: description.slice(0, MAX_DESCRIPTION),
    CI_MERGE_REQUEST_DESCRIPTION_IS_TRUNCATED: description.length > MAX_DESCRIPTION,
    CI_MERGE_REQUEST_DRAFT: row.draft,
    CI_MERGE_REQUEST_SQUASH_ON_MERGE: row.squash,
    CI_MERGE_REQUEST_MILESTONE: row.milestone,
    CI_MERGE_REQUEST_ASSIGNEES: row.assignees.length === 0 ? null : row.assignees.join(','),
    CI_MERGE_REQUEST_LABELS: row.labels.length === 0 ? null : row.labels.join(','),
  });
};
