import { ObjectFieldBuilder, type ObjectFieldThunk } from '@pothos/core';
import { AccessLevelRef } from '#domains/access/graphql.ts';
import { visibilityName } from '#domains/access/model.ts';
import { GroupRef, loadGroup, NamespaceRef, namespaceColumns } from '#domains/groups/graphql.ts';
import { loadHtml } from '#domains/markdown/graphql.ts';
import { builder, type Types } from '#graphql/builder.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Selection } from '#graphql/lookahead.ts';
import type { Context } from '#platform/context.ts';
import { attributeNames } from './attributes.ts';
import { ciConfigPathOf } from './ci-config-path.ts';
import {
  httpUrlToRepo,
  markedForDeletionOn,
  nameWithNamespace,
  type ProjectColumns,
  type ProjectRow,
  projectAvatarUrl,
  projectWebUrl,
  readmeUrl,
  type StatisticsRow,
  sshUrlToRepo,
  storageSize,
} from './model.ts';
import { can, type JudgedProject, POLICY_COLUMNS, type ProjectAbility } from './policy.ts';
import {
  namespaceParts,
  type ProjectPart,
  type ProjectWith,
  projectsByIds,
  ROW,
  starredByIds,
  statisticsByIds,
} from './queries.ts';

/** A project in GraphQL. Its fields read what they declare (`projectField`). */
type ProjectNode = ProjectWith<readonly ['id']>;

/** A project. All domains add fields with `projectField`. */
export const ProjectRef = builder.objectRef<ProjectNode>('Project');
export const ProjectConnection = builder.connectionObject(
  { type: ProjectRef, name: 'ProjectConnection' },
  { name: 'ProjectEdge' },
);

/** Loads the whole project if the caller can see it. Batches concurrent calls. */
export const loadProject: (ctx: Context, id: number) => Promise<ProjectRow | null> = loader((ctx, ids) =>
  projectsByIds(ctx, ids, ROW),
);
const loadStatistics = loader(statisticsByIds);
const loadStarred = loader(starredByIds);

const partsOfField = new Map<string, readonly ProjectPart[]>();

/**
 * Adds a field to Project. `parts` is all that it can read of the project, and lists read no more than the parts of the
 * selected fields. `JUDGED` is what `can` reads.
 */
export const projectField = <const Parts extends readonly ProjectPart[]>(
  name: string,
  parts: Parts,
  field: ObjectFieldThunk<Types, ProjectWith<readonly ['id', ...Parts]>>,
): void => {
  partsOfField.set(name, parts);
  builder.objectField(ProjectRef, name, () => field(new ObjectFieldBuilder(builder)));
};

/** The parts of a project that `can` and `requireAbility` read. */
export const JUDGED = [...POLICY_COLUMNS, 'access_level'] as const;

/** Parts that depend on the request. Only the fields that declared them read them. */
type SelectedParts = readonly ['id', ...ProjectPart[]];

const partsOfSelection = new WeakMap<Selection, SelectedParts>();

/** Returns the parts to read for a selection. Cached per selection; selections are cached with their document. */
export const projectParts = (selection: Selection): SelectedParts => {
  const known = partsOfSelection.get(selection);
  if (known) return known;
  const parts = new Set<ProjectPart>();
  for (const [field, below] of Object.entries(selection)) {
    const read = field === 'namespace' ? partsOfNamespace(below) : (partsOfField.get(field) ?? []);
    for (const part of read) parts.add(part);
  }
  parts.delete('id');
  const found = ['id', ...parts] as const;
  partsOfSelection.set(selection, found);
  return found;
};

const partsOfNamespace = (selection: Selection): readonly ProjectPart[] => [
  'namespace_id',
  ...namespaceColumns(selection).map((column) => `ns_${column}` as const),
];

type BooleanColumn = {
  [K in keyof ProjectColumns]: ProjectColumns[K] extends boolean | null ? K : never;
}[keyof ProjectColumns];

/** Fields that tell whether a feature is on. */
const SWITCHES = {
  issuesEnabled: 'issues_access_level',
  mergeRequestsEnabled: 'merge_requests_access_level',
  wikiEnabled: 'wiki_access_level',
  jobsEnabled: 'builds_access_level',
  snippetsEnabled: 'snippets_access_level',
  containerRegistryEnabled: 'container_registry_access_level',
} as const;

const ProjectPermissions = builder.objectRef<JudgedProject>('ProjectPermissions').implement({
  description: 'What the caller may do in the project.',
  fields: (t) => {
    const may = (ability: ProjectAbility) =>
      t.boolean({ nullable: false, resolve: (project, _args, ctx) => can(ctx, project, ability) });
    return {
      readProject: may('read_project'),
      adminProject: may('admin_project'),
      updateSettings: may('update_settings'),
      changeVisibilityLevel: may('change_visibility'),
      archiveProject: may('archive_project'),
      renameProject: may('rename_project'),
      removeProject: may('remove_project'),
      downloadCode: may('read_code'),
      pushCode: may('push_code'),
      createIssue: may('create_issue'),
      adminIssue: may('admin_issue'),
      createLabel: may('admin_label'),
      adminMilestone: may('admin_milestone'),
      createNote: may('create_note'),
      readMergeRequest: may('read_merge_request'),
      createMergeRequestFrom: may('create_merge_request'),
      createMergeRequestIn: may('create_merge_request'),
      readPipeline: may('read_pipeline'),
      createPipeline: may('create_pipeline'),
      createRelease: may('admin_release'),
      adminProjectMember: may('admin_member'),
      adminWebHook: may('admin_hook'),
      exportProject: may('export'),
      readStatistics: may('read_statistics'),
    };
  },
});

const ProjectStatistics = builder.objectRef<StatisticsRow>('ProjectStatistics').implement({
  description: 'The storage that a project uses, in bytes.',
  fields: (t) => ({
    commitCount: t.exposeFloat('commit_count', { nullable: false }),
    storageSize: t.float({ nullable: false, resolve: storageSize }),
    repositorySize: t.exposeFloat('repository_size', { nullable: false }),
    lfsObjectsSize: t.exposeFloat('lfs_objects_size', { nullable: false }),
    buildArtifactsSize: t.exposeFloat('job_artifacts_size', { nullable: false }),
    pipelineArtifactsSize: t.exposeFloat('pipeline_artifacts_size'),
    packagesSize: t.exposeFloat('packages_size', { nullable: false }),
    wikiSize: t.exposeFloat('wiki_size'),
    snippetsSize: t.exposeFloat('snippets_size'),
    uploadsSize: t.exposeFloat('uploads_size'),
    containerRegistrySize: t.exposeFloat('container_registry_size'),
  }),
});

ProjectRef.implement({
  description: 'A project: a repository with its issues, merge requests and pipelines.',
});

projectField('id', ['id'], (t) => t.id({ nullable: false, resolve: (project) => gid('Project', project.id) }));
projectField('fullPath', ['full_path'], (t) => t.exposeID('full_path', { nullable: false }));
projectField('path', ['path'], (t) => t.exposeString('path', { nullable: false }));
projectField('name', ['name'], (t) => t.exposeString('name', { nullable: false }));
projectField('nameWithNamespace', ['name', 'namespace_id', 'namespace'], (t) =>
  t.string({ nullable: false, resolve: nameWithNamespace }),
);
projectField('description', ['description'], (t) => t.exposeString('description'));
projectField('descriptionHtml', ['description'], (t) =>
  t.string({
    resolve: ({ id, description }, _args, ctx) => loadHtml(ctx, { text: description, home: { kind: 'project', id } }),
  }),
);
projectField('visibility', ['visibility_level'], (t) =>
  t.string({ resolve: (project) => visibilityName(project.visibility_level) }),
);
projectField('avatarUrl', ['id', 'avatar_key'], (t) =>
  t.string({ resolve: (project, _args, ctx) => projectAvatarUrl(ctx, project) }),
);
projectField('markedForDeletionOn', ['marked_for_deletion_on', 'namespace'], (t) =>
  t.field({
    type: 'Date',
    description:
      'The day on which it, or a group above it, was marked for deletion. It can be restored until the delay has passed.',
    resolve: (project) => markedForDeletionOn(project),
  }),
);
projectField('webUrl', ['full_path'], (t) =>
  t.string({ resolve: (project, _args, ctx) => projectWebUrl(ctx, project) }),
);
projectField('sshUrlToRepo', ['full_path'], (t) =>
  t.string({ resolve: (project, _args, ctx) => sshUrlToRepo(ctx, project) }),
);
projectField('httpUrlToRepo', ['full_path'], (t) =>
  t.string({ resolve: (project, _args, ctx) => httpUrlToRepo(ctx, project) }),
);
projectField('readmeUrl', [...JUDGED, 'full_path', 'readme_path', 'default_branch'], (t) =>
  t.string({
    resolve: (project, _args, ctx) => (can(ctx, project, 'read_code') ? readmeUrl(ctx, project) : null),
  }),
);
projectField('createdAt', ['created_at'], (t) => t.expose('created_at', { type: 'Time' }));
projectField('updatedAt', ['updated_at'], (t) => t.expose('updated_at', { type: 'Time' }));
projectField('lastActivityAt', ['last_activity_at'], (t) => t.expose('last_activity_at', { type: 'Time' }));
projectField('starCount', ['star_count'], (t) => t.exposeInt('star_count', { nullable: false }));
projectField('forksCount', ['forks_count'], (t) => t.exposeInt('forks_count', { nullable: false }));
projectField('openIssuesCount', [...JUDGED, 'open_issues_count'], (t) =>
  t.int({
    description: 'The same number for everyone who can read issues: confidential ones are not counted.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'read_issue') ? project.open_issues_count : null),
  }),
);
projectField('defaultBranch', [...JUDGED, 'default_branch'], (t) =>
  t.string({
    description: 'Only for callers who can read the code.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'read_code') ? project.default_branch : null),
  }),
);
projectField('importStatus', ['import'], (t) => t.exposeString('import_status'));
projectField('importType', ['import_type'], (t) => t.exposeString('import_type'));
projectField('topics', ['topics'], (t) => t.exposeStringList('topics'));
projectField('namespace', ['namespace_id', ...namespaceParts], (t) =>
  t.field({ type: NamespaceRef, resolve: (project) => project.namespace }),
);
projectField('group', ['namespace_id'], (t) =>
  t.field({ type: GroupRef, resolve: (project, _args, ctx) => loadGroup(ctx, project.namespace_id) }),
);
projectField('statistics', JUDGED, (t) =>
  t.field({
    type: ProjectStatistics,
    description: 'Requires at least the Reporter role.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'read_statistics') ? loadStatistics(ctx, project.id) : null),
  }),
);
projectField('userPermissions', JUDGED, (t) =>
  t.field({ type: ProjectPermissions, nullable: false, resolve: (project) => project }),
);
projectField('maxAccessLevel', ['access_level'], (t) =>
  t.field({ type: AccessLevelRef, nullable: false, resolve: (project) => project.access_level }),
);
projectField('isStarred', ['id'], (t) =>
  t.boolean({
    nullable: false,
    description: 'Whether the caller has starred it.',
    resolve: async (project, _args, ctx) => (await loadStarred(ctx, project.id)) ?? false,
  }),
);
projectField('mergeMethod', ['merge_method'], (t) => t.exposeString('merge_method'));
projectField('mergeRequestsFfOnlyEnabled', ['merge_method'], (t) =>
  t.boolean({ resolve: (project) => project.merge_method === 'ff' }),
);
projectField('squashOption', ['squash_option'], (t) => t.exposeString('squash_option'));
projectField('squashReadOnly', ['squash_option'], (t) =>
  t.boolean({
    nullable: false,
    resolve: ({ squash_option }) => squash_option === 'always' || squash_option === 'never',
  }),
);
projectField('suggestionCommitMessage', ['suggestion_commit_message'], (t) =>
  t.exposeString('suggestion_commit_message'),
);
projectField('mergeCommitTemplate', ['merge_commit_template'], (t) => t.exposeString('merge_commit_template'));
projectField('squashCommitTemplate', ['squash_commit_template'], (t) => t.exposeString('squash_commit_template'));
projectField('mergeRequestTitleRegex', ['merge_request_title_regex'], (t) =>
  t.exposeString('merge_request_title_regex', {
    description: 'What titles of merge requests must match (RE2) before they can be merged.',
  }),
);
projectField('mergeRequestTitleRegexDescription', ['merge_request_title_regex_description'], (t) =>
  t.exposeString('merge_request_title_regex_description'),
);
projectField('ciConfigPathOrDefault', ['ci_config_path'], (t) =>
  t.string({ nullable: false, resolve: (project, _args, ctx) => ciConfigPathOf(ctx, project) }),
);
projectField('settings', ['settings'], (t) =>
  t.field({
    type: 'JSON',
    description:
      'All settings that maintainers control, under the names of the REST record. Requires authentication, as there.',
    resolve: (project, _args, ctx) =>
      ctx.actor.userId === null ? null : Object.fromEntries(attributeNames.map((name) => [name, project[name]])),
  }),
);
const flag = (name: string, column: BooleanColumn) =>
  projectField(name, [column], (t) => t.boolean({ nullable: true, resolve: (project) => project[column] }));
flag('archived', 'archived');
flag('emptyRepo', 'empty_repo');
flag('lfsEnabled', 'lfs_enabled');
flag('sharedRunnersEnabled', 'shared_runners_enabled');
flag('groupRunnersEnabled', 'group_runners_enabled');
flag('publicJobs', 'public_jobs');
flag('requestAccessEnabled', 'request_access_enabled');
flag('onlyAllowMergeIfPipelineSucceeds', 'only_allow_merge_if_pipeline_succeeds');
flag('onlyAllowMergeIfAllDiscussionsAreResolved', 'only_allow_merge_if_all_discussions_are_resolved');
flag('allowMergeOnSkippedPipeline', 'allow_merge_on_skipped_pipeline');
flag('removeSourceBranchAfterMerge', 'remove_source_branch_after_merge');
flag('printingMergeRequestLinkEnabled', 'printing_merge_request_link_enabled');
flag('autocloseReferencedIssues', 'autoclose_referenced_issues');
flag('serviceDeskEnabled', 'service_desk_enabled');
const partSwitch = (
  name: string,
  column: (typeof SWITCHES)[keyof typeof SWITCHES],
  { deprecationReason }: { readonly deprecationReason?: string } = {},
) =>
  projectField(name, [column], (t) =>
    t.boolean({
      nullable: true,
      ...(deprecationReason === undefined ? {} : { deprecationReason }),
      resolve: (project) => project[column] !== 'disabled',
    }),
  );
partSwitch('issuesEnabled', SWITCHES.issuesEnabled);
partSwitch('mergeRequestsEnabled', SWITCHES.mergeRequestsEnabled);
partSwitch('wikiEnabled', SWITCHES.wikiEnabled);
partSwitch('jobsEnabled', SWITCHES.jobsEnabled);
partSwitch('snippetsEnabled', SWITCHES.snippetsEnabled);
partSwitch('containerRegistryEnabled', SWITCHES.containerRegistryEnabled, {
  deprecationReason: 'Use `containerRegistryAccessLevel`.',
});
projectField('containerRegistryAccessLevel', ['container_registry_access_level'], (t) =>
  t.exposeString('container_registry_access_level'),
);
