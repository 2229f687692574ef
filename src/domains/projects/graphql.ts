import { AccessLevelRef } from '#domains/access/graphql.ts';
import { visibilityName } from '#domains/access/model.ts';
import { GroupRef, loadGroup, NamespaceRef } from '#domains/groups/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Selection } from '#graphql/lookahead.ts';
import type { Context } from '#platform/context.ts';
import { descriptionHtml } from '#platform/description-html.ts';
import { attributeNames } from './attributes.ts';
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
import { can, POLICY_COLUMNS, type ProjectAbility } from './policy.ts';
import {
  type NamespacePart,
  namespaceParts,
  type ProjectPart,
  projectsByIds,
  ROW,
  starredByIds,
  statisticsByIds,
} from './queries.ts';

/** A project. Downstream domains add fields with `builder.objectField(ProjectRef, ...)`. */
export const ProjectRef = builder.objectRef<ProjectRow>('Project');
export const ProjectConnection = builder.connectionObject(
  { type: ProjectRef, name: 'ProjectConnection' },
  { name: 'ProjectEdge' },
);

/** Loads the whole project if the caller can see it. Batches concurrent calls. */
export const loadProject: (ctx: Context, id: number) => Promise<ProjectRow | null> = loader((ctx, ids) =>
  projectsByIds(ctx, ids),
);
const loadStatistics = loader(statisticsByIds);
const loadStarred = loader(starredByIds);

/** The parts of the row that each field of Project reads. Fields that are not listed read the whole row. */
const partsOfField = new Map<string, readonly ProjectPart[]>();

/**
 * Declares what a field that a downstream domain adds to Project reads of the row, so that lists select no more.
 * `JUDGED` is what `can` reads.
 */
export const readsOfProject = (field: string, parts: readonly ProjectPart[]): void => {
  partsOfField.set(field, parts);
};

/** What `can` and `requireAbility` read of a project. */
export const JUDGED: readonly ProjectPart[] = ['id', ...POLICY_COLUMNS, 'access_level'];

const partsOfSelection = new WeakMap<Selection, readonly ProjectPart[]>();

/** Returns the parts to read for a selection. Cached per selection; selections are cached with their document. */
export const projectParts = (selection: Selection): readonly ProjectPart[] => {
  const known = partsOfSelection.get(selection);
  if (known) return known;
  const parts = new Set<ProjectPart>(['id']);
  for (const [field, below] of Object.entries(selection)) {
    const read = field === 'namespace' ? partsOfNamespace(below) : (partsOfField.get(field) ?? ROW);
    for (const part of field === '__typename' ? [] : read) parts.add(part);
  }
  const found = [...parts];
  partsOfSelection.set(selection, found);
  return found;
};

/** The parts that the fields of Namespace read. Other fields load the whole namespace by its id and kind. */
const partsOfNamespaceField: Readonly<Record<string, readonly NamespacePart[]>> = {
  id: ['ns_kind'],
  name: ['ns_name'],
  path: ['ns_path'],
  fullName: ['ns_full_name'],
  fullPath: ['ns_full_path'],
  kind: ['ns_kind'],
  visibility: ['ns_visibility_level'],
  webUrl: ['ns_kind', 'ns_full_path'],
};

const partsOfNamespace = (selection: Selection): readonly ProjectPart[] => [
  'namespace_id',
  ...Object.keys(selection).flatMap((field) => partsOfNamespaceField[field] ?? namespaceParts),
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

const ProjectPermissions = builder.objectRef<ProjectRow>('ProjectPermissions').implement({
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
  fields: (t) => {
    /** Declares what the field reads of the row along with the field. */
    const reads = <F>(name: string, parts: readonly ProjectPart[], field: F): F => {
      readsOfProject(name, parts);
      return field;
    };
    const flag = (name: string, column: BooleanColumn) => ({
      [name]: reads(name, [column], t.boolean({ nullable: true, resolve: (project) => project[column] })),
    });
    const partSwitch = (name: string, column: (typeof SWITCHES)[keyof typeof SWITCHES]) => ({
      [name]: reads(
        name,
        [column],
        t.boolean({ nullable: true, resolve: (project) => project[column] !== 'disabled' }),
      ),
    });
    return {
      id: reads('id', ['id'], t.id({ nullable: false, resolve: (project) => gid('Project', project.id) })),
      fullPath: reads('fullPath', ['full_path'], t.exposeID('full_path', { nullable: false })),
      path: reads('path', ['path'], t.exposeString('path', { nullable: false })),
      name: reads('name', ['name'], t.exposeString('name', { nullable: false })),
      nameWithNamespace: reads(
        'nameWithNamespace',
        ['name', 'namespace_id', 'namespace'],
        t.string({ nullable: false, resolve: nameWithNamespace }),
      ),
      description: reads('description', ['description'], t.exposeString('description')),
      descriptionHtml: reads(
        'descriptionHtml',
        ['description'],
        t.string({ resolve: (project) => descriptionHtml(project.description) }),
      ),
      visibility: reads(
        'visibility',
        ['visibility_level'],
        t.string({ resolve: (project) => visibilityName(project.visibility_level) }),
      ),
      avatarUrl: reads(
        'avatarUrl',
        ['id', 'avatar_key'],
        t.string({ resolve: (project, _args, ctx) => projectAvatarUrl(ctx, project) }),
      ),
      markedForDeletionOn: reads(
        'markedForDeletionOn',
        ['marked_for_deletion_on', 'namespace'],
        t.field({
          type: 'Date',
          description:
            'The day on which it, or a group above it, was marked for deletion. It can be restored until the delay has passed.',
          resolve: (project) => markedForDeletionOn(project),
        }),
      ),
      webUrl: reads(
        'webUrl',
        ['full_path'],
        t.string({ resolve: (project, _args, ctx) => projectWebUrl(ctx, project) }),
      ),
      sshUrlToRepo: reads(
        'sshUrlToRepo',
        ['full_path'],
        t.string({ resolve: (project, _args, ctx) => sshUrlToRepo(ctx, project) }),
      ),
      httpUrlToRepo: reads(
        'httpUrlToRepo',
        ['full_path'],
        t.string({ resolve: (project, _args, ctx) => httpUrlToRepo(ctx, project) }),
      ),
      readmeUrl: reads(
        'readmeUrl',
        [...JUDGED, 'full_path', 'readme_path', 'default_branch'],
        t.string({
          resolve: (project, _args, ctx) => (can(ctx, project, 'read_code') ? readmeUrl(ctx, project) : null),
        }),
      ),
      createdAt: reads('createdAt', ['created_at'], t.expose('created_at', { type: 'Time' })),
      updatedAt: reads('updatedAt', ['updated_at'], t.expose('updated_at', { type: 'Time' })),
      lastActivityAt: reads('lastActivityAt', ['last_activity_at'], t.expose('last_activity_at', { type: 'Time' })),
      starCount: reads('starCount', ['star_count'], t.exposeInt('star_count', { nullable: false })),
      forksCount: reads('forksCount', ['forks_count'], t.exposeInt('forks_count', { nullable: false })),
      openIssuesCount: reads(
        'openIssuesCount',
        [...JUDGED, 'open_issues_count'],
        t.int({
          resolve: (project, _args, ctx) => (can(ctx, project, 'read_issue') ? project.open_issues_count : null),
        }),
      ),
      defaultBranch: reads(
        'defaultBranch',
        [...JUDGED, 'default_branch'],
        t.string({
          description: 'Only for callers who can read the code.',
          resolve: (project, _args, ctx) => (can(ctx, project, 'read_code') ? project.default_branch : null),
        }),
      ),
      importStatus: reads('importStatus', ['import'], t.exposeString('import_status')),
      importType: reads('importType', ['import_type'], t.exposeString('import_type')),
      topics: reads('topics', ['topics'], t.exposeStringList('topics')),
      namespace: reads(
        'namespace',
        ['namespace_id', ...namespaceParts],
        t.field({ type: NamespaceRef, resolve: (project) => project.namespace }),
      ),
      group: reads(
        'group',
        ['namespace_id'],
        t.field({ type: GroupRef, resolve: (project, _args, ctx) => loadGroup(ctx, project.namespace_id) }),
      ),
      statistics: reads(
        'statistics',
        JUDGED,
        t.field({
          type: ProjectStatistics,
          description: 'Requires at least the Reporter role.',
          resolve: (project, _args, ctx) =>
            can(ctx, project, 'read_statistics') ? loadStatistics(ctx, project.id) : null,
        }),
      ),
      userPermissions: reads(
        'userPermissions',
        JUDGED,
        t.field({ type: ProjectPermissions, nullable: false, resolve: (project) => project }),
      ),
      maxAccessLevel: reads(
        'maxAccessLevel',
        ['access_level'],
        t.field({ type: AccessLevelRef, nullable: false, resolve: (project) => project.access_level }),
      ),
      isStarred: reads(
        'isStarred',
        ['id'],
        t.boolean({
          nullable: false,
          description: 'Whether the caller has starred it.',
          resolve: async (project, _args, ctx) => (await loadStarred(ctx, project.id)) ?? false,
        }),
      ),
      mergeMethod: reads('mergeMethod', ['merge_method'], t.exposeString('merge_method')),
      mergeRequestsFfOnlyEnabled: reads(
        'mergeRequestsFfOnlyEnabled',
        ['merge_method'],
        t.boolean({ resolve: (project) => project.merge_method === 'ff' }),
      ),
      squashOption: reads('squashOption', ['squash_option'], t.exposeString('squash_option')),
      squashReadOnly: reads(
        'squashReadOnly',
        ['squash_option'],
        t.boolean({
          nullable: false,
          resolve: ({ squash_option }) => squash_option === 'always' || squash_option === 'never',
        }),
      ),
      suggestionCommitMessage: reads(
        'suggestionCommitMessage',
        ['suggestion_commit_message'],
        t.exposeString('suggestion_commit_message'),
      ),
      mergeCommitTemplate: reads(
        'mergeCommitTemplate',
        ['merge_commit_template'],
        t.exposeString('merge_commit_template'),
      ),
      squashCommitTemplate: reads(
        'squashCommitTemplate',
        ['squash_commit_template'],
        t.exposeString('squash_commit_template'),
      ),
      ciConfigPathOrDefault: reads(
        'ciConfigPathOrDefault',
        ['ci_config_path'],
        t.string({ nullable: false, resolve: (project) => project.ci_config_path || '.gitlab-ci.yml' }),
      ),
      settings: reads(
        'settings',
        attributeNames,
        t.field({
          type: 'JSON',
          description: 'All settings that maintainers control, under the names of the REST record.',
          resolve: (project) => Object.fromEntries(attributeNames.map((name) => [name, project[name]])),
        }),
      ),
      ...flag('archived', 'archived'),
      ...flag('emptyRepo', 'empty_repo'),
      ...flag('lfsEnabled', 'lfs_enabled'),
      ...flag('sharedRunnersEnabled', 'shared_runners_enabled'),
      ...flag('groupRunnersEnabled', 'group_runners_enabled'),
      ...flag('publicJobs', 'public_jobs'),
      ...flag('requestAccessEnabled', 'request_access_enabled'),
      ...flag('onlyAllowMergeIfPipelineSucceeds', 'only_allow_merge_if_pipeline_succeeds'),
      ...flag('onlyAllowMergeIfAllDiscussionsAreResolved', 'only_allow_merge_if_all_discussions_are_resolved'),
      ...flag('allowMergeOnSkippedPipeline', 'allow_merge_on_skipped_pipeline'),
      ...flag('removeSourceBranchAfterMerge', 'remove_source_branch_after_merge'),
      ...flag('printingMergeRequestLinkEnabled', 'printing_merge_request_link_enabled'),
      ...flag('autocloseReferencedIssues', 'autoclose_referenced_issues'),
      ...flag('serviceDeskEnabled', 'service_desk_enabled'),
      ...partSwitch('issuesEnabled', SWITCHES.issuesEnabled),
      ...partSwitch('mergeRequestsEnabled', SWITCHES.mergeRequestsEnabled),
      ...partSwitch('wikiEnabled', SWITCHES.wikiEnabled),
      ...partSwitch('jobsEnabled', SWITCHES.jobsEnabled),
      ...partSwitch('snippetsEnabled', SWITCHES.snippetsEnabled),
      ...partSwitch('containerRegistryEnabled', SWITCHES.containerRegistryEnabled),
    };
  },
});
