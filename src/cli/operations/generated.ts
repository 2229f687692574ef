/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
import type { TypedDocumentNode as DocumentNode } from '@graphql-typed-document-node/core';
/** How the default branch of new projects is protected. Roles: 0 nobody, 30, 40, 60 administrators. */
export type BranchProtectionDefaultsInput = {
  allowForcePush?: boolean | null | undefined;
  allowedToMerge?: Array<BranchRoleInput> | null | undefined;
  allowedToPush?: Array<BranchRoleInput> | null | undefined;
  codeOwnerApprovalRequired?: boolean | null | undefined;
  developerCanInitialPush?: boolean | null | undefined;
};

export type BranchRoleInput = {
  accessLevel: number;
};

export type CreateIssueInput = {
  assigneeIds?: Array<string> | null | undefined;
  clientMutationId?: string | null | undefined;
  confidential?: boolean | null | undefined;
  /** For owners only. */
  createdAt?: string | null | undefined;
  description?: string | null | undefined;
  dueDate?: string | null | undefined;
  /** For owners only. */
  iid?: number | null | undefined;
  labelIds?: Array<string> | null | undefined;
  /** Titles. Missing labels are created. */
  labels?: Array<string> | null | undefined;
  milestoneId?: string | null | undefined;
  projectPath: string;
  title: string;
  type?: IssueType | null | undefined;
  weight?: number | null | undefined;
};

/** The scope: a project, a group with everything below it, or everything that the caller may see. */
export type EventScope = {
  groupPath?: string | null | undefined;
  projectPath?: string | null | undefined;
};

/** Who can use a feature of a project or group: nobody, members, or everyone who can see it. */
export type FeatureAccessLevel =
  | 'disabled'
  | 'enabled'
  | 'private';

export type GroupCreateInput = {
  assistantFeaturesEnabled?: boolean | null | undefined;
  autoDevopsEnabled?: boolean | null | undefined;
  clientMutationId?: string | null | undefined;
  defaultBranch?: string | null | undefined;
  defaultBranchProtectionDefaults?: BranchProtectionDefaultsInput | null | undefined;
  description?: string | null | undefined;
  emailsEnabled?: boolean | null | undefined;
  lfsEnabled?: boolean | null | undefined;
  lockAssistantFeaturesEnabled?: boolean | null | undefined;
  lockMathRenderingLimitsEnabled?: boolean | null | undefined;
  mathRenderingLimitsEnabled?: boolean | null | undefined;
  mentionsDisabled?: boolean | null | undefined;
  name: string;
  /** Creates a top-level group if absent. */
  parentPath?: string | null | undefined;
  path: string;
  projectCreationLevel?: GroupProjectCreationLevel | null | undefined;
  requestAccessEnabled?: boolean | null | undefined;
  requireTwoFactorAuthentication?: boolean | null | undefined;
  shareWithGroupLock?: boolean | null | undefined;
  subgroupCreationLevel?: GroupSubgroupCreationLevel | null | undefined;
  twoFactorGracePeriod?: number | null | undefined;
  visibility?: VisibilityLevelsEnum | null | undefined;
  wikiAccessLevel?: FeatureAccessLevel | null | undefined;
};

export type GroupProjectCreationLevel =
  | 'administrator'
  | 'developer'
  | 'maintainer'
  | 'noone'
  | 'owner';

export type GroupSubgroupCreationLevel =
  | 'maintainer'
  | 'owner';

/** The status of an import. */
export type ImportStatus =
  | 'FAILED'
  | 'FINISHED'
  | 'NONE'
  | 'SCHEDULED'
  | 'STARTED';

export type IssueState =
  | 'all'
  | 'closed'
  | 'locked'
  | 'opened';

export type IssueType =
  | 'EPIC'
  | 'INCIDENT'
  | 'ISSUE'
  | 'KEY_RESULT'
  | 'OBJECTIVE'
  | 'REQUIREMENT'
  | 'TASK'
  | 'TEST_CASE'
  | 'TICKET';

export type MilestoneStateEnum =
  | 'active'
  | 'closed';

export type ProjectCreateInput = {
  allowMergeOnSkippedPipeline?: boolean | null | undefined;
  analyticsAccessLevel?: string | null | undefined;
  /** @deprecated Use approval rules. */
  approvalsBeforeMerge?: number | null | undefined;
  autoCancelPendingPipelines?: string | null | undefined;
  autoDevopsDeployStrategy?: string | null | undefined;
  autoDevopsEnabled?: boolean | null | undefined;
  autocloseReferencedIssues?: boolean | null | undefined;
  buildCoverageRegex?: string | null | undefined;
  buildGitStrategy?: string | null | undefined;
  buildTimeout?: number | null | undefined;
  buildsAccessLevel?: string | null | undefined;
  ciAllowForkPipelinesToRunInParentProject?: boolean | null | undefined;
  ciConfigPath?: string | null | undefined;
  ciDefaultGitDepth?: number | null | undefined;
  ciForwardDeploymentEnabled?: boolean | null | undefined;
  ciForwardDeploymentRollbackAllowed?: boolean | null | undefined;
  ciJobTokenScopeEnabled?: boolean | null | undefined;
  ciPipelineVariablesMinimumOverrideRole?: string | null | undefined;
  ciPushRepositoryForJobTokenAllowed?: boolean | null | undefined;
  ciRestrictPipelineCancellationRole?: string | null | undefined;
  ciSeparatedCaches?: boolean | null | undefined;
  clientMutationId?: string | null | undefined;
  containerExpirationPolicy?: unknown;
  containerRegistryAccessLevel?: string | null | undefined;
  defaultBranch?: string | null | undefined;
  description?: string | null | undefined;
  emailsEnabled?: boolean | null | undefined;
  enforceAuthChecksOnUploads?: boolean | null | undefined;
  externalAuthorizationClassificationLabel?: string | null | undefined;
  forkingAccessLevel?: string | null | undefined;
  groupRunnersEnabled?: boolean | null | undefined;
  /** The http or https address of a git repository that a job clones. May include credentials. */
  importUrl?: string | null | undefined;
  initializeWithReadme?: boolean | null | undefined;
  issueBranchTemplate?: string | null | undefined;
  issuesAccessLevel?: string | null | undefined;
  keepLatestArtifact?: boolean | null | undefined;
  lfsEnabled?: boolean | null | undefined;
  mergeCommitTemplate?: string | null | undefined;
  mergeMethod?: string | null | undefined;
  mergePipelinesEnabled?: boolean | null | undefined;
  mergeRequestTitleRegex?: string | null | undefined;
  mergeRequestTitleRegexDescription?: string | null | undefined;
  mergeRequestsAccessLevel?: string | null | undefined;
  mrDefaultTargetSelf?: boolean | null | undefined;
  name?: string | null | undefined;
  /** Defaults to the caller's own namespace. */
  namespaceId?: string | null | undefined;
  /** Alternative to `namespaceId`. */
  namespacePath?: string | null | undefined;
  onlyAllowMergeIfAllDiscussionsAreResolved?: boolean | null | undefined;
  onlyAllowMergeIfPipelineSucceeds?: boolean | null | undefined;
  packagesEnabled?: boolean | null | undefined;
  pagesAccessLevel?: string | null | undefined;
  path?: string | null | undefined;
  printingMergeRequestLinkEnabled?: boolean | null | undefined;
  publicJobs?: boolean | null | undefined;
  removeSourceBranchAfterMerge?: boolean | null | undefined;
  repositoryAccessLevel?: string | null | undefined;
  requestAccessEnabled?: boolean | null | undefined;
  requirementsAccessLevel?: string | null | undefined;
  resolveOutdatedDiffDiscussions?: boolean | null | undefined;
  restrictUserDefinedVariables?: boolean | null | undefined;
  runnerTokenExpirationInterval?: number | null | undefined;
  securityAndComplianceAccessLevel?: string | null | undefined;
  serviceDeskEnabled?: boolean | null | undefined;
  sharedRunnersEnabled?: boolean | null | undefined;
  snippetsAccessLevel?: string | null | undefined;
  squashCommitTemplate?: string | null | undefined;
  squashOption?: string | null | undefined;
  suggestionCommitMessage?: string | null | undefined;
  topics?: Array<string> | null | undefined;
  visibility?: VisibilityLevelsEnum | null | undefined;
  warnAboutPotentiallyUnwantedCharacters?: boolean | null | undefined;
  wikiAccessLevel?: string | null | undefined;
};

/** The status of an export. */
export type ProjectExportStatus =
  | 'FINISHED'
  | 'NONE'
  | 'QUEUED'
  | 'REGENERATION_IN_PROGRESS'
  | 'STARTED';

/** Who can see a project or group. */
export type VisibilityLevelsEnum =
  | 'internal'
  | 'private'
  | 'public';

export type CreateDemoIssueMutationVariables = Exact<{
  input: CreateIssueInput;
}>;


export type CreateDemoIssueMutation = { createIssue: { errors: Array<string>, issue: { iid: string } | null } | null };

export type ProjectContentsQueryVariables = Exact<{
  fullPath: string;
}>;


export type ProjectContentsQuery = { project: { name: string, fullPath: string, description: string | null, visibility: string | null, openIssuesCount: number | null, repository: { rootRef: string | null, empty: boolean } | null, labels: { count: number, nodes: Array<{ title: string, color: string } | null> | null } | null, milestones: { nodes: Array<{ title: string, dueDate: string | null, state: MilestoneStateEnum } | null> | null } | null, issues: { count: number, nodes: Array<{ iid: string, title: string, description: string | null, state: IssueState, createdAt: string, userNotesCount: number, labels: { nodes: Array<{ title: string } | null> | null } | null, milestone: { title: string } | null, author:
          | { username: string }
          | { username: string }
          | { username: string }
         | null } | null> | null } | null } | null };

export type FollowEventsSubscriptionVariables = Exact<{
  scope?: EventScope | null | undefined;
  kinds?: Array<string> | string | null | undefined;
  after?: string | null | undefined;
}>;


export type FollowEventsSubscription = { events: { cursor: string, kind: string, createdAt: string, actorId: number | null, subjectType: string, subjectId: number, payload: unknown } | null };

export type CurrentUserQueryVariables = Exact<{ [key: string]: never; }>;


export type CurrentUserQuery = { currentUser: { id: string, username: string, name: string } | null };

export type ListProjectsQueryVariables = Exact<{
  search?: string | null | undefined;
  after?: string | null | undefined;
}>;


export type ListProjectsQuery = { projects: { nodes: Array<{ fullPath: string, visibility: string | null, description: string | null, lastActivityAt: string | null } | null> | null, pageInfo: { hasNextPage: boolean, endCursor: string | null } } | null };

export type CreateGroupMutationVariables = Exact<{
  input: GroupCreateInput;
}>;


export type CreateGroupMutation = { groupCreate: { errors: Array<string>, group: { id: string, fullPath: string, webUrl: string } | null } | null };

export type CreateProjectMutationVariables = Exact<{
  input: ProjectCreateInput;
}>;


export type CreateProjectMutation = { projectCreate: { errors: Array<string>, project: { id: string, fullPath: string, webUrl: string | null, httpUrlToRepo: string | null } | null } | null };

export type RelationsOfTransferFragment = { name: string, done: number, total: number };

export type StartExportMutationVariables = Exact<{
  projectPath: string;
}>;


export type StartExportMutation = { projectExport: { errors: Array<string>, project: { id: string } | null } | null };

export type ExportStatusQueryVariables = Exact<{
  fullPath: string;
}>;


export type ExportStatusQuery = { project: { id: string, export: { status: ProjectExportStatus, size: string | null, error: string | null } | null } | null };

export type FollowExportSubscriptionVariables = Exact<{
  fullPath: string;
  after?: string | null | undefined;
}>;


export type FollowExportSubscription = { projectExportUpdated: { cursor: string, status: ProjectExportStatus, progress: number, bytes: string, error: string | null, relations: Array<{ name: string, done: number, total: number }> } | null };

export type ImportStatusQueryVariables = Exact<{
  fullPath: string;
}>;


export type ImportStatusQuery = { project: { id: string, import: { status: ImportStatus, error: string | null, relations: Array<{ name: string, done: number, total: number }>, failedRelations: { nodes: Array<{ relationName: string, lineNumber: number, exceptionMessage: string } | null> | null } | null } | null } | null };

export type FollowImportSubscriptionVariables = Exact<{
  fullPath: string;
  after?: string | null | undefined;
}>;


export type FollowImportSubscription = { projectImportUpdated: { cursor: string, status: ImportStatus, progress: number, bytes: string, error: string | null, relations: Array<{ name: string, done: number, total: number }> } | null };

export type RetryImportMutationVariables = Exact<{
  projectPath: string;
}>;


export type RetryImportMutation = { projectImportRetry: { errors: Array<string> } | null };

export const RelationsOfTransferFragmentDoc = {"kind":"Document","definitions":[{"kind":"FragmentDefinition","name":{"kind":"Name","value":"RelationsOfTransfer"},"typeCondition":{"kind":"NamedType","name":{"kind":"Name","value":"TransferRelationProgress"}},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"name"}},{"kind":"Field","name":{"kind":"Name","value":"done"}},{"kind":"Field","name":{"kind":"Name","value":"total"}}]}}]} as unknown as DocumentNode<RelationsOfTransferFragment, unknown>;
export const CreateDemoIssueDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"mutation","name":{"kind":"Name","value":"CreateDemoIssue"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"input"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"CreateIssueInput"}}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"createIssue"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"input"},"value":{"kind":"Variable","name":{"kind":"Name","value":"input"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"errors"}},{"kind":"Field","name":{"kind":"Name","value":"issue"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"iid"}}]}}]}}]}}]} as unknown as DocumentNode<CreateDemoIssueMutation, CreateDemoIssueMutationVariables>;
export const ProjectContentsDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"query","name":{"kind":"Name","value":"ProjectContents"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"ID"}}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"project"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"fullPath"},"value":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"name"}},{"kind":"Field","name":{"kind":"Name","value":"fullPath"}},{"kind":"Field","name":{"kind":"Name","value":"description"}},{"kind":"Field","name":{"kind":"Name","value":"visibility"}},{"kind":"Field","name":{"kind":"Name","value":"openIssuesCount"}},{"kind":"Field","name":{"kind":"Name","value":"repository"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"rootRef"}},{"kind":"Field","name":{"kind":"Name","value":"empty"}}]}},{"kind":"Field","name":{"kind":"Name","value":"labels"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"count"}},{"kind":"Field","name":{"kind":"Name","value":"nodes"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"title"}},{"kind":"Field","name":{"kind":"Name","value":"color"}}]}}]}},{"kind":"Field","name":{"kind":"Name","value":"milestones"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"nodes"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"title"}},{"kind":"Field","name":{"kind":"Name","value":"dueDate"}},{"kind":"Field","name":{"kind":"Name","value":"state"}}]}}]}},{"kind":"Field","name":{"kind":"Name","value":"issues"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"first"},"value":{"kind":"IntValue","value":"100"}},{"kind":"Argument","name":{"kind":"Name","value":"sort"},"value":{"kind":"EnumValue","value":"CREATED_ASC"}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"count"}},{"kind":"Field","name":{"kind":"Name","value":"nodes"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"iid"}},{"kind":"Field","name":{"kind":"Name","value":"title"}},{"kind":"Field","name":{"kind":"Name","value":"description"}},{"kind":"Field","name":{"kind":"Name","value":"state"}},{"kind":"Field","name":{"kind":"Name","value":"createdAt"}},{"kind":"Field","name":{"kind":"Name","value":"userNotesCount"}},{"kind":"Field","name":{"kind":"Name","value":"labels"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"first"},"value":{"kind":"IntValue","value":"10"}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"nodes"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"title"}}]}}]}},{"kind":"Field","name":{"kind":"Name","value":"milestone"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"title"}}]}},{"kind":"Field","name":{"kind":"Name","value":"author"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"username"}}]}}]}}]}}]}}]}}]} as unknown as DocumentNode<ProjectContentsQuery, ProjectContentsQueryVariables>;
export const FollowEventsDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"subscription","name":{"kind":"Name","value":"FollowEvents"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"scope"}},"type":{"kind":"NamedType","name":{"kind":"Name","value":"EventScope"}}},{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"kinds"}},"type":{"kind":"ListType","type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"String"}}}}},{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"after"}},"type":{"kind":"NamedType","name":{"kind":"Name","value":"String"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"events"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"scope"},"value":{"kind":"Variable","name":{"kind":"Name","value":"scope"}}},{"kind":"Argument","name":{"kind":"Name","value":"kinds"},"value":{"kind":"Variable","name":{"kind":"Name","value":"kinds"}}},{"kind":"Argument","name":{"kind":"Name","value":"after"},"value":{"kind":"Variable","name":{"kind":"Name","value":"after"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"cursor"}},{"kind":"Field","name":{"kind":"Name","value":"kind"}},{"kind":"Field","name":{"kind":"Name","value":"createdAt"}},{"kind":"Field","name":{"kind":"Name","value":"actorId"}},{"kind":"Field","name":{"kind":"Name","value":"subjectType"}},{"kind":"Field","name":{"kind":"Name","value":"subjectId"}},{"kind":"Field","name":{"kind":"Name","value":"payload"}}]}}]}}]} as unknown as DocumentNode<FollowEventsSubscription, FollowEventsSubscriptionVariables>;
export const CurrentUserDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"query","name":{"kind":"Name","value":"CurrentUser"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"currentUser"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"id"}},{"kind":"Field","name":{"kind":"Name","value":"username"}},{"kind":"Field","name":{"kind":"Name","value":"name"}}]}}]}}]} as unknown as DocumentNode<CurrentUserQuery, CurrentUserQueryVariables>;
export const ListProjectsDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"query","name":{"kind":"Name","value":"ListProjects"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"search"}},"type":{"kind":"NamedType","name":{"kind":"Name","value":"String"}}},{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"after"}},"type":{"kind":"NamedType","name":{"kind":"Name","value":"String"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"projects"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"search"},"value":{"kind":"Variable","name":{"kind":"Name","value":"search"}}},{"kind":"Argument","name":{"kind":"Name","value":"membership"},"value":{"kind":"BooleanValue","value":true}},{"kind":"Argument","name":{"kind":"Name","value":"first"},"value":{"kind":"IntValue","value":"50"}},{"kind":"Argument","name":{"kind":"Name","value":"after"},"value":{"kind":"Variable","name":{"kind":"Name","value":"after"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"nodes"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"fullPath"}},{"kind":"Field","name":{"kind":"Name","value":"visibility"}},{"kind":"Field","name":{"kind":"Name","value":"description"}},{"kind":"Field","name":{"kind":"Name","value":"lastActivityAt"}}]}},{"kind":"Field","name":{"kind":"Name","value":"pageInfo"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"hasNextPage"}},{"kind":"Field","name":{"kind":"Name","value":"endCursor"}}]}}]}}]}}]} as unknown as DocumentNode<ListProjectsQuery, ListProjectsQueryVariables>;
export const CreateGroupDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"mutation","name":{"kind":"Name","value":"CreateGroup"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"input"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"GroupCreateInput"}}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"groupCreate"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"input"},"value":{"kind":"Variable","name":{"kind":"Name","value":"input"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"errors"}},{"kind":"Field","name":{"kind":"Name","value":"group"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"id"}},{"kind":"Field","name":{"kind":"Name","value":"fullPath"}},{"kind":"Field","name":{"kind":"Name","value":"webUrl"}}]}}]}}]}}]} as unknown as DocumentNode<CreateGroupMutation, CreateGroupMutationVariables>;
export const CreateProjectDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"mutation","name":{"kind":"Name","value":"CreateProject"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"input"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"ProjectCreateInput"}}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"projectCreate"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"input"},"value":{"kind":"Variable","name":{"kind":"Name","value":"input"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"errors"}},{"kind":"Field","name":{"kind":"Name","value":"project"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"id"}},{"kind":"Field","name":{"kind":"Name","value":"fullPath"}},{"kind":"Field","name":{"kind":"Name","value":"webUrl"}},{"kind":"Field","name":{"kind":"Name","value":"httpUrlToRepo"}}]}}]}}]}}]} as unknown as DocumentNode<CreateProjectMutation, CreateProjectMutationVariables>;
export const StartExportDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"mutation","name":{"kind":"Name","value":"StartExport"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"projectPath"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"ID"}}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"projectExport"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"input"},"value":{"kind":"ObjectValue","fields":[{"kind":"ObjectField","name":{"kind":"Name","value":"projectPath"},"value":{"kind":"Variable","name":{"kind":"Name","value":"projectPath"}}}]}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"errors"}},{"kind":"Field","name":{"kind":"Name","value":"project"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"id"}}]}}]}}]}}]} as unknown as DocumentNode<StartExportMutation, StartExportMutationVariables>;
export const ExportStatusDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"query","name":{"kind":"Name","value":"ExportStatus"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"ID"}}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"project"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"fullPath"},"value":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"id"}},{"kind":"Field","name":{"kind":"Name","value":"export"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"status"}},{"kind":"Field","name":{"kind":"Name","value":"size"}},{"kind":"Field","name":{"kind":"Name","value":"error"}}]}}]}}]}}]} as unknown as DocumentNode<ExportStatusQuery, ExportStatusQueryVariables>;
export const FollowExportDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"subscription","name":{"kind":"Name","value":"FollowExport"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"ID"}}}},{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"after"}},"type":{"kind":"NamedType","name":{"kind":"Name","value":"String"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"projectExportUpdated"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"fullPath"},"value":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}}},{"kind":"Argument","name":{"kind":"Name","value":"after"},"value":{"kind":"Variable","name":{"kind":"Name","value":"after"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"cursor"}},{"kind":"Field","name":{"kind":"Name","value":"status"}},{"kind":"Field","name":{"kind":"Name","value":"progress"}},{"kind":"Field","name":{"kind":"Name","value":"bytes"}},{"kind":"Field","name":{"kind":"Name","value":"error"}},{"kind":"Field","name":{"kind":"Name","value":"relations"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"FragmentSpread","name":{"kind":"Name","value":"RelationsOfTransfer"}}]}}]}}]}},{"kind":"FragmentDefinition","name":{"kind":"Name","value":"RelationsOfTransfer"},"typeCondition":{"kind":"NamedType","name":{"kind":"Name","value":"TransferRelationProgress"}},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"name"}},{"kind":"Field","name":{"kind":"Name","value":"done"}},{"kind":"Field","name":{"kind":"Name","value":"total"}}]}}]} as unknown as DocumentNode<FollowExportSubscription, FollowExportSubscriptionVariables>;
export const ImportStatusDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"query","name":{"kind":"Name","value":"ImportStatus"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"ID"}}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"project"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"fullPath"},"value":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"id"}},{"kind":"Field","name":{"kind":"Name","value":"import"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"status"}},{"kind":"Field","name":{"kind":"Name","value":"error"}},{"kind":"Field","name":{"kind":"Name","value":"relations"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"FragmentSpread","name":{"kind":"Name","value":"RelationsOfTransfer"}}]}},{"kind":"Field","name":{"kind":"Name","value":"failedRelations"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"first"},"value":{"kind":"IntValue","value":"100"}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"nodes"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"relationName"}},{"kind":"Field","name":{"kind":"Name","value":"lineNumber"}},{"kind":"Field","name":{"kind":"Name","value":"exceptionMessage"}}]}}]}}]}}]}}]}},{"kind":"FragmentDefinition","name":{"kind":"Name","value":"RelationsOfTransfer"},"typeCondition":{"kind":"NamedType","name":{"kind":"Name","value":"TransferRelationProgress"}},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"name"}},{"kind":"Field","name":{"kind":"Name","value":"done"}},{"kind":"Field","name":{"kind":"Name","value":"total"}}]}}]} as unknown as DocumentNode<ImportStatusQuery, ImportStatusQueryVariables>;
export const FollowImportDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"subscription","name":{"kind":"Name","value":"FollowImport"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"ID"}}}},{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"after"}},"type":{"kind":"NamedType","name":{"kind":"Name","value":"String"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"projectImportUpdated"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"fullPath"},"value":{"kind":"Variable","name":{"kind":"Name","value":"fullPath"}}},{"kind":"Argument","name":{"kind":"Name","value":"after"},"value":{"kind":"Variable","name":{"kind":"Name","value":"after"}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"cursor"}},{"kind":"Field","name":{"kind":"Name","value":"status"}},{"kind":"Field","name":{"kind":"Name","value":"progress"}},{"kind":"Field","name":{"kind":"Name","value":"bytes"}},{"kind":"Field","name":{"kind":"Name","value":"error"}},{"kind":"Field","name":{"kind":"Name","value":"relations"},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"FragmentSpread","name":{"kind":"Name","value":"RelationsOfTransfer"}}]}}]}}]}},{"kind":"FragmentDefinition","name":{"kind":"Name","value":"RelationsOfTransfer"},"typeCondition":{"kind":"NamedType","name":{"kind":"Name","value":"TransferRelationProgress"}},"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"name"}},{"kind":"Field","name":{"kind":"Name","value":"done"}},{"kind":"Field","name":{"kind":"Name","value":"total"}}]}}]} as unknown as DocumentNode<FollowImportSubscription, FollowImportSubscriptionVariables>;
export const RetryImportDocument = {"kind":"Document","definitions":[{"kind":"OperationDefinition","operation":"mutation","name":{"kind":"Name","value":"RetryImport"},"variableDefinitions":[{"kind":"VariableDefinition","variable":{"kind":"Variable","name":{"kind":"Name","value":"projectPath"}},"type":{"kind":"NonNullType","type":{"kind":"NamedType","name":{"kind":"Name","value":"ID"}}}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"projectImportRetry"},"arguments":[{"kind":"Argument","name":{"kind":"Name","value":"input"},"value":{"kind":"ObjectValue","fields":[{"kind":"ObjectField","name":{"kind":"Name","value":"projectPath"},"value":{"kind":"Variable","name":{"kind":"Name","value":"projectPath"}}}]}}],"selectionSet":{"kind":"SelectionSet","selections":[{"kind":"Field","name":{"kind":"Name","value":"errors"}}]}}]}}]} as unknown as DocumentNode<RetryImportMutation, RetryImportMutationVariables>;