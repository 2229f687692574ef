import { GroupConnection, GroupRef } from '#domains/groups/graphql.ts';
import { findGroup } from '#domains/groups/queries.ts';
import { updateProject } from '#domains/projects/commands.ts';
import { JUDGED, ProjectConnection, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { admitJobs, admittedGroupsOf, admittedProjectsOf, refuseJobs } from '../job-token-scope.ts';

const loadAdmittedProjects = loader(admittedProjectsOf);
const loadAdmittedGroups = loader(admittedGroupsOf);

const ScopeRef = builder.objectRef<Pick<ProjectRow, 'id'>>('CiJobTokenScopeType').implement({
  description: 'The projects and groups whose job tokens a project accepts, besides its own.',
  fields: (t) => ({
    inboundAllowlist: t.connection(
      {
        type: ProjectRef,
        nullable: false,
        description: 'The projects that the caller can see.',
        resolve: ({ id }, args, ctx, info) =>
          connection(args, info, async (page) =>
            pageOfAll(page, (await loadAdmittedProjects(ctx, id)) ?? [], (project) => [project.id]),
          ),
      },
      ProjectConnection,
    ),
    groupsAllowlist: t.connection(
      {
        type: GroupRef,
        nullable: false,
        description: 'The groups that the caller can see.',
        resolve: ({ id }, args, ctx, info) =>
          connection(args, info, async (page) =>
            pageOfAll(page, (await loadAdmittedGroups(ctx, id)) ?? [], (group) => [group.id]),
          ),
      },
      GroupConnection,
    ),
  }),
});

projectField('ciJobTokenScope', [...JUDGED, 'id'], (t) =>
  t.field({
    type: ScopeRef,
    nullable: true,
    description: 'Only for maintainers; null for other callers.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'update_settings') ? project : null),
  }),
);

const SETTINGS = [
  'ci_inbound_job_token_scope_enabled',
  'ci_job_token_scope_enabled',
  'ci_push_repository_for_job_token_allowed',
  'keep_latest_artifact',
  'max_artifacts_size',
  'merge_pipelines_enabled',
] as const;

const SettingsRef = builder.objectRef<Pick<ProjectRow, (typeof SETTINGS)[number]>>('ProjectCiCdSetting').implement({
  fields: (t) => ({
    inboundJobTokenScopeEnabled: t.exposeBoolean('ci_inbound_job_token_scope_enabled', {
      description: 'Whether only job tokens of the project itself and of its allowlist are accepted.',
    }),
    jobTokenScopeEnabled: t.exposeBoolean('ci_job_token_scope_enabled', { description: 'Has no effect.' }),
    pushRepositoryForJobTokenAllowed: t.exposeBoolean('ci_push_repository_for_job_token_allowed', {
      description: 'Whether jobs of the project may push to it.',
    }),
    keepLatestArtifact: t.exposeBoolean('keep_latest_artifact'),
    maxArtifactsSize: t.exposeInt('max_artifacts_size', {
      nullable: true,
      description: 'The maximum size of an artifact in MiB; null: as the group above, or the instance.',
    }),
    mergePipelinesEnabled: t.exposeBoolean('merge_pipelines_enabled', {
      description: 'Whether pipelines of merge requests run on the merged result.',
    }),
  }),
});

projectField('ciCdSettings', [...JUDGED, ...SETTINGS], (t) =>
  t.field({
    type: SettingsRef,
    nullable: true,
    description: 'Only for maintainers; null for other callers.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'update_settings') ? project : null),
  }),
);

mutationField('projectCiCdSettingsUpdate', {
  description: 'Changes CI settings of a project.',
  input: (t) => ({
    fullPath: t.id({ required: true }),
    inboundJobTokenScopeEnabled: t.boolean(),
    jobTokenScopeEnabled: t.boolean({ description: 'Stored without effect.' }),
    pushRepositoryForJobTokenAllowed: t.boolean(),
    keepLatestArtifact: t.boolean(),
    maxArtifactsSize: t.int({ description: 'Administrators only. MiB; null: as the group above, or the instance.' }),
    mergePipelinesEnabled: t.boolean(),
  }),
  payload: { ciCdSettings: SettingsRef },
  run: async (ctx, input) => ({
    ciCdSettings: await updateProject(ctx, await getProject(ctx, { path: input.fullPath }), {
      ci_inbound_job_token_scope_enabled: input.inboundJobTokenScopeEnabled ?? undefined,
      ci_job_token_scope_enabled: input.jobTokenScopeEnabled ?? undefined,
      ci_push_repository_for_job_token_allowed: input.pushRepositoryForJobTokenAllowed ?? undefined,
      keep_latest_artifact: input.keepLatestArtifact ?? undefined,
      max_artifacts_size: input.maxArtifactsSize,
      merge_pipelines_enabled: input.mergePipelinesEnabled ?? undefined,
    }),
  }),
});

mutationField('ciJobTokenScopeAddProject', {
  description: 'Accepts the job tokens of another project.',
  input: (t) => ({ projectPath: t.id({ required: true }), targetProjectPath: t.id({ required: true }) }),
  payload: { ciJobTokenScope: ScopeRef },
  run: async (ctx, { projectPath, targetProjectPath }) => {
    const project = await getProject(ctx, { path: projectPath });
    await admitJobs(ctx, project, { kind: 'project', id: { path: targetProjectPath } });
    return { ciJobTokenScope: project };
  },
});

mutationField('ciJobTokenScopeAddGroupOrProject', {
  description: 'Accepts the job tokens of another project, or of all projects in a group.',
  input: (t) => ({ projectPath: t.id({ required: true }), targetPath: t.id({ required: true }) }),
  payload: { ciJobTokenScope: ScopeRef },
  run: async (ctx, { projectPath, targetPath }) => {
    const project = await getProject(ctx, { path: projectPath });
    const kind = (await findGroup(ctx, { path: targetPath })) ? 'group' : 'project';
    await admitJobs(ctx, project, { kind, id: { path: targetPath } });
    return { ciJobTokenScope: project };
  },
});

mutationField('ciJobTokenScopeRemoveProject', {
  description: 'Refuses the job tokens of another project again.',
  input: (t) => ({ projectPath: t.id({ required: true }), targetProjectPath: t.id({ required: true }) }),
  payload: { ciJobTokenScope: ScopeRef },
  run: async (ctx, { projectPath, targetProjectPath }) => {
    const project = await getProject(ctx, { path: projectPath });
    await refuseJobs(ctx, project, { kind: 'project', id: { path: targetProjectPath } });
    return { ciJobTokenScope: project };
  },
});

mutationField('ciJobTokenScopeRemoveGroup', {
  description: 'Refuses the job tokens of the projects in a group again.',
  input: (t) => ({ projectPath: t.id({ required: true }), targetGroupPath: t.id({ required: true }) }),
  payload: { ciJobTokenScope: ScopeRef },
  run: async (ctx, { projectPath, targetGroupPath }) => {
    const project = await getProject(ctx, { path: projectPath });
    await refuseJobs(ctx, project, { kind: 'group', id: { path: targetGroupPath } });
    return { ciJobTokenScope: project };
  },
});
