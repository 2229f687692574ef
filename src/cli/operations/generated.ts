/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
export type Maybe<T> = T | null;
export type InputMaybe<T> = Maybe<T>;
/** All built-in and custom scalars, mapped to their actual values */
export type Scalars = {
  ID: { input: string; output: string };
  String: { input: string; output: string };
  Boolean: { input: boolean; output: boolean };
  Int: { input: number; output: number };
  Float: { input: number; output: number };
  /** An integer beyond 32 bits, written as a string. */
  BigInt: { input: string; output: string };
  /** A global id such as `gid://gitlab/Board/1`. */
  BoardID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Ci::Pipeline/1`. */
  CiPipelineID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Ci::Runner/1`. */
  CiRunnerID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Ci::Stage/1`. */
  CiStageID: { input: string; output: string };
  /** A colour: `#rrggbb` or a CSS name. */
  Color: { input: string; output: string };
  /** A day, `YYYY-MM-DD`. */
  Date: { input: string; output: string };
  /** A length of time in seconds. */
  Duration: { input: string; output: string };
  /** A global id such as `gid://gitlab/Group/1`. */
  GroupID: { input: string; output: string };
  /** The global id of one of: Issue, MergeRequest. */
  IssuableID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Issue/1`. */
  IssueID: { input: string; output: string };
  /** Any JSON value. */
  JSON: { input: unknown; output: unknown };
  /** A global id such as `gid://gitlab/Ci::JobArtifact/1`. */
  JobArtifactID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Ci::Build/1`. */
  JobID: { input: string; output: string };
  /** A global id such as `gid://gitlab/ProjectLabel/1`. */
  LabelID: { input: string; output: string };
  /** A global id such as `gid://gitlab/MergeRequest/1`. */
  MergeRequestID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Milestone/1`. */
  MilestoneID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Namespaces::UserNamespace/1`. */
  NamespaceID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Note/1`. */
  NoteID: { input: string; output: string };
  /** The global id of one of: Issue, MergeRequest, Snippet, Commit. */
  NoteableID: { input: string; output: string };
  /** A global id such as `gid://gitlab/PersonalAccessToken/1`. */
  PersonalAccessTokenID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Project/1`. */
  ProjectID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Release/1`. */
  ReleaseID: { input: string; output: string };
  /** A global id such as `gid://gitlab/Snippet/1`. */
  SnippetID: { input: string; output: string };
  /** A time as ISO 8601 in UTC, such as `2026-11-21T01:42:33.123Z`. */
  Time: { input: string; output: string };
  /** A global id such as `gid://gitlab/Todo/1`. */
  TodoID: { input: string; output: string };
  /** A global id such as `gid://gitlab/User/1`. */
  UserID: { input: string; output: string };
  /** A global id such as `gid://gitlab/GroupHook/1`. */
  WebHookID: { input: string; output: string };
  /** A global id such as `gid://gitlab/WebHookLog/1`. */
  WebHookLogID: { input: string; output: string };
};

/** A role of a member. */
export type AccessLevelEnum =
  | 'DEVELOPER'
  | 'GUEST'
  | 'MAINTAINER'
  | 'MINIMAL_ACCESS'
  | 'NO_ACCESS'
  | 'OWNER'
  | 'PLANNER'
  | 'REPORTER';

export type ApplicationSettingsUpdateInput = {
  /** Whether hooks, and URLs that exports upload to, may lie on loopback or private addresses. */
  allowLocalRequestsFromWebHooksAndServices?: InputMaybe<Scalars['Boolean']['input']>;
  /** Whether new users may create top-level groups. */
  canCreateGroup?: InputMaybe<Scalars['Boolean']['input']>;
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  /** How long unpacking an archive may take, in seconds; 0 is unlimited. */
  decompressArchiveFileTimeout?: InputMaybe<Scalars['Int']['input']>;
  /** First branch of a new project. */
  defaultBranchName?: InputMaybe<Scalars['String']['input']>;
  /** Protection of the default branch of new projects. */
  defaultBranchProtectionDefaults?: InputMaybe<Scalars['JSON']['input']>;
  /** Visibility of a group created without one. */
  defaultGroupVisibility?: InputMaybe<Scalars['String']['input']>;
  /** Visibility of a project created without one. */
  defaultProjectVisibility?: InputMaybe<Scalars['String']['input']>;
  /** How many projects a new user may own in his own namespace. */
  defaultProjectsLimit?: InputMaybe<Scalars['Int']['input']>;
  /** Own setting: how long events are kept for subscribers that come back with a cursor. */
  eventRetentionDays?: InputMaybe<Scalars['Int']['input']>;
  /** Own setting: how long a finished export can be downloaded. */
  exportFileLifetimeHours?: InputMaybe<Scalars['Int']['input']>;
  /** Own setting: whether the GraphQL explorer is served. */
  graphiqlEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  /** How far an archive may unpack, in MiB; 0 is unlimited. */
  maxDecompressedArchiveSize?: InputMaybe<Scalars['Int']['input']>;
  /** Largest archive an export may make, in MiB; 0 is unlimited. */
  maxExportSize?: InputMaybe<Scalars['Int']['input']>;
  /** Largest archive that can be uploaded for an import, in MiB; 0 is unlimited. */
  maxImportSize?: InputMaybe<Scalars['Int']['input']>;
  /** Longest life of a personal access token, in days. */
  maxPersonalAccessTokenLifetime?: InputMaybe<Scalars['Int']['input']>;
  /** Least length of a password. */
  minimumPasswordLength?: InputMaybe<Scalars['Int']['input']>;
  /** Hosts, addresses and ranges that hooks may reach although they are local. */
  outboundLocalRequestsWhitelist?: InputMaybe<Array<Scalars['String']['input']>>;
  /** Whether git over HTTP takes a user name and password beside tokens. */
  passwordAuthenticationEnabledForGit?: InputMaybe<Scalars['Boolean']['input']>;
  /** What the value of a new personal access token begins with. */
  personalAccessTokenPrefix?: InputMaybe<Scalars['String']['input']>;
  /** Whether projects can be exported. */
  projectExportEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  /** A push that touches more branches or tags than this fires no push or tag hook. */
  pushEventHooksLimit?: InputMaybe<Scalars['Int']['input']>;
  /** Whether personal access tokens must expire. */
  requirePersonalAccessTokenExpiry?: InputMaybe<Scalars['Boolean']['input']>;
  /** Visibilities that only administrators may give. */
  restrictedVisibilityLevels?: InputMaybe<Array<Scalars['String']['input']>>;
  /** Nothing is sent out: neither hooks nor uploads of exports. */
  silentModeEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  /** Whether new users are external. */
  userDefaultExternal?: InputMaybe<Scalars['Boolean']['input']>;
  /** Whether new users have a private profile. */
  userDefaultsToPrivateProfile?: InputMaybe<Scalars['Boolean']['input']>;
  /** Own setting: how long deliveries are kept and can be resent. */
  webhookDeliveryRetentionDays?: InputMaybe<Scalars['Int']['input']>;
};

/** How the default branch of new projects is protected. Roles: 0 nobody, 30, 40, 60 administrators. */
export type BranchProtectionDefaultsInput = {
  allowForcePush?: InputMaybe<Scalars['Boolean']['input']>;
  allowedToMerge?: InputMaybe<Array<BranchRoleInput>>;
  allowedToPush?: InputMaybe<Array<BranchRoleInput>>;
  codeOwnerApprovalRequired?: InputMaybe<Scalars['Boolean']['input']>;
  developerCanInitialPush?: InputMaybe<Scalars['Boolean']['input']>;
};

export type BranchRoleInput = {
  accessLevel: Scalars['Int']['input'];
};

/** Where to listen: a project, a group with everything below it, or all that the caller may see. */
export type EventScope = {
  groupPath?: InputMaybe<Scalars['ID']['input']>;
  projectPath?: InputMaybe<Scalars['ID']['input']>;
};

export type GroupCreateInput = {
  autoDevopsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  defaultBranch?: InputMaybe<Scalars['String']['input']>;
  defaultBranchProtectionDefaults?: InputMaybe<BranchProtectionDefaultsInput>;
  description?: InputMaybe<Scalars['String']['input']>;
  emailsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  lfsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  lockMathRenderingLimitsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  mathRenderingLimitsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  mentionsDisabled?: InputMaybe<Scalars['Boolean']['input']>;
  name: Scalars['String']['input'];
  /** Top-level when absent. */
  parentPath?: InputMaybe<Scalars['ID']['input']>;
  path: Scalars['String']['input'];
  projectCreationLevel?: InputMaybe<GroupProjectCreationLevel>;
  requestAccessEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  requireTwoFactorAuthentication?: InputMaybe<Scalars['Boolean']['input']>;
  shareWithGroupLock?: InputMaybe<Scalars['Boolean']['input']>;
  subgroupCreationLevel?: InputMaybe<GroupSubgroupCreationLevel>;
  twoFactorGracePeriod?: InputMaybe<Scalars['Int']['input']>;
  visibility?: InputMaybe<VisibilityLevelsEnum>;
};

export type GroupDeleteInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  fullPath: Scalars['ID']['input'];
};

export type GroupProjectCreationLevel = 'administrator' | 'developer' | 'maintainer' | 'noone' | 'owner';

export type GroupShareInput = {
  accessLevel: AccessLevelEnum;
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  expiresAt?: InputMaybe<Scalars['Date']['input']>;
  fullPath: Scalars['ID']['input'];
  sharedWithPath: Scalars['ID']['input'];
};

export type GroupSort = 'ID_ASC' | 'ID_DESC' | 'NAME_ASC' | 'NAME_DESC' | 'PATH_ASC' | 'PATH_DESC' | 'SIMILARITY';

export type GroupSubgroupCreationLevel = 'maintainer' | 'owner';

export type GroupTransferInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  fullPath: Scalars['ID']['input'];
  /** The top when absent. */
  parentPath?: InputMaybe<Scalars['ID']['input']>;
};

export type GroupUnshareInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  fullPath: Scalars['ID']['input'];
  sharedWithPath: Scalars['ID']['input'];
};

export type GroupUpdateInput = {
  autoDevopsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  defaultBranch?: InputMaybe<Scalars['String']['input']>;
  defaultBranchProtectionDefaults?: InputMaybe<BranchProtectionDefaultsInput>;
  description?: InputMaybe<Scalars['String']['input']>;
  emailsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  fullPath: Scalars['ID']['input'];
  lfsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  lockMathRenderingLimitsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  mathRenderingLimitsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  mentionsDisabled?: InputMaybe<Scalars['Boolean']['input']>;
  name?: InputMaybe<Scalars['String']['input']>;
  path?: InputMaybe<Scalars['String']['input']>;
  projectCreationLevel?: InputMaybe<GroupProjectCreationLevel>;
  requestAccessEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  requireTwoFactorAuthentication?: InputMaybe<Scalars['Boolean']['input']>;
  shareWithGroupLock?: InputMaybe<Scalars['Boolean']['input']>;
  sharedRunnersSetting?: InputMaybe<SharedRunnersSetting>;
  subgroupCreationLevel?: InputMaybe<GroupSubgroupCreationLevel>;
  twoFactorGracePeriod?: InputMaybe<Scalars['Int']['input']>;
  visibility?: InputMaybe<VisibilityLevelsEnum>;
};

export type NamespaceProjectSort =
  | 'ACTIVITY_ASC'
  | 'ACTIVITY_DESC'
  | 'CREATED_ASC'
  | 'CREATED_DESC'
  | 'ID_ASC'
  | 'ID_DESC'
  | 'NAME_ASC'
  | 'NAME_DESC'
  | 'PATH_ASC'
  | 'PATH_DESC'
  | 'SIMILARITY'
  | 'STARS_ASC'
  | 'STARS_DESC'
  | 'UPDATED_ASC'
  | 'UPDATED_DESC';

export type PersonalAccessTokenCreateInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  description?: InputMaybe<Scalars['String']['input']>;
  expiresAt?: InputMaybe<Scalars['Date']['input']>;
  name: Scalars['String']['input'];
  scopes: Array<Scalars['String']['input']>;
  userId?: InputMaybe<Scalars['UserID']['input']>;
};

export type PersonalAccessTokenRevokeInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  id?: InputMaybe<Scalars['PersonalAccessTokenID']['input']>;
};

export type PersonalAccessTokenState = 'ACTIVE' | 'INACTIVE';

export type ProjectArchiveInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  fullPath: Scalars['ID']['input'];
};

export type ProjectCreateInput = {
  allowMergeOnSkippedPipeline?: InputMaybe<Scalars['Boolean']['input']>;
  analyticsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  approvalsBeforeMerge?: InputMaybe<Scalars['Int']['input']>;
  autoCancelPendingPipelines?: InputMaybe<Scalars['String']['input']>;
  autoDevopsDeployStrategy?: InputMaybe<Scalars['String']['input']>;
  autoDevopsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  autocloseReferencedIssues?: InputMaybe<Scalars['Boolean']['input']>;
  buildGitStrategy?: InputMaybe<Scalars['String']['input']>;
  buildTimeout?: InputMaybe<Scalars['Int']['input']>;
  buildsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  ciAllowForkPipelinesToRunInParentProject?: InputMaybe<Scalars['Boolean']['input']>;
  ciConfigPath?: InputMaybe<Scalars['String']['input']>;
  ciDefaultGitDepth?: InputMaybe<Scalars['Int']['input']>;
  ciForwardDeploymentEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  ciForwardDeploymentRollbackAllowed?: InputMaybe<Scalars['Boolean']['input']>;
  ciJobTokenScopeEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  ciPipelineVariablesMinimumOverrideRole?: InputMaybe<Scalars['String']['input']>;
  ciPushRepositoryForJobTokenAllowed?: InputMaybe<Scalars['Boolean']['input']>;
  ciRestrictPipelineCancellationRole?: InputMaybe<Scalars['String']['input']>;
  ciSeparatedCaches?: InputMaybe<Scalars['Boolean']['input']>;
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  containerExpirationPolicy?: InputMaybe<Scalars['JSON']['input']>;
  containerRegistryAccessLevel?: InputMaybe<Scalars['String']['input']>;
  defaultBranch?: InputMaybe<Scalars['String']['input']>;
  description?: InputMaybe<Scalars['String']['input']>;
  emailsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  enforceAuthChecksOnUploads?: InputMaybe<Scalars['Boolean']['input']>;
  externalAuthorizationClassificationLabel?: InputMaybe<Scalars['String']['input']>;
  forkingAccessLevel?: InputMaybe<Scalars['String']['input']>;
  groupRunnersEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  initializeWithReadme?: InputMaybe<Scalars['Boolean']['input']>;
  issueBranchTemplate?: InputMaybe<Scalars['String']['input']>;
  issuesAccessLevel?: InputMaybe<Scalars['String']['input']>;
  keepLatestArtifact?: InputMaybe<Scalars['Boolean']['input']>;
  lfsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  mergeCommitTemplate?: InputMaybe<Scalars['String']['input']>;
  mergeMethod?: InputMaybe<Scalars['String']['input']>;
  mergeRequestsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  mrDefaultTargetSelf?: InputMaybe<Scalars['Boolean']['input']>;
  name?: InputMaybe<Scalars['String']['input']>;
  /** The caller's own namespace when absent. */
  namespaceId?: InputMaybe<Scalars['NamespaceID']['input']>;
  /** Instead of `namespaceId`. */
  namespacePath?: InputMaybe<Scalars['ID']['input']>;
  onlyAllowMergeIfAllDiscussionsAreResolved?: InputMaybe<Scalars['Boolean']['input']>;
  onlyAllowMergeIfPipelineSucceeds?: InputMaybe<Scalars['Boolean']['input']>;
  packagesEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  pagesAccessLevel?: InputMaybe<Scalars['String']['input']>;
  path?: InputMaybe<Scalars['String']['input']>;
  printingMergeRequestLinkEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  publicJobs?: InputMaybe<Scalars['Boolean']['input']>;
  removeSourceBranchAfterMerge?: InputMaybe<Scalars['Boolean']['input']>;
  repositoryAccessLevel?: InputMaybe<Scalars['String']['input']>;
  requestAccessEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  requirementsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  resolveOutdatedDiffDiscussions?: InputMaybe<Scalars['Boolean']['input']>;
  restrictUserDefinedVariables?: InputMaybe<Scalars['Boolean']['input']>;
  runnerTokenExpirationInterval?: InputMaybe<Scalars['Int']['input']>;
  securityAndComplianceAccessLevel?: InputMaybe<Scalars['String']['input']>;
  serviceDeskEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  sharedRunnersEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  snippetsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  squashCommitTemplate?: InputMaybe<Scalars['String']['input']>;
  squashOption?: InputMaybe<Scalars['String']['input']>;
  suggestionCommitMessage?: InputMaybe<Scalars['String']['input']>;
  topics?: InputMaybe<Array<Scalars['String']['input']>>;
  visibility?: InputMaybe<VisibilityLevelsEnum>;
  warnAboutPotentiallyUnwantedCharacters?: InputMaybe<Scalars['Boolean']['input']>;
  wikiAccessLevel?: InputMaybe<Scalars['String']['input']>;
};

export type ProjectDeleteInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  fullPath: Scalars['ID']['input'];
};

export type ProjectUnarchiveInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  fullPath: Scalars['ID']['input'];
};

export type ProjectUpdateInput = {
  allowMergeOnSkippedPipeline?: InputMaybe<Scalars['Boolean']['input']>;
  analyticsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  approvalsBeforeMerge?: InputMaybe<Scalars['Int']['input']>;
  autoCancelPendingPipelines?: InputMaybe<Scalars['String']['input']>;
  autoDevopsDeployStrategy?: InputMaybe<Scalars['String']['input']>;
  autoDevopsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  autocloseReferencedIssues?: InputMaybe<Scalars['Boolean']['input']>;
  buildGitStrategy?: InputMaybe<Scalars['String']['input']>;
  buildTimeout?: InputMaybe<Scalars['Int']['input']>;
  buildsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  ciAllowForkPipelinesToRunInParentProject?: InputMaybe<Scalars['Boolean']['input']>;
  ciConfigPath?: InputMaybe<Scalars['String']['input']>;
  ciDefaultGitDepth?: InputMaybe<Scalars['Int']['input']>;
  ciForwardDeploymentEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  ciForwardDeploymentRollbackAllowed?: InputMaybe<Scalars['Boolean']['input']>;
  ciJobTokenScopeEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  ciPipelineVariablesMinimumOverrideRole?: InputMaybe<Scalars['String']['input']>;
  ciPushRepositoryForJobTokenAllowed?: InputMaybe<Scalars['Boolean']['input']>;
  ciRestrictPipelineCancellationRole?: InputMaybe<Scalars['String']['input']>;
  ciSeparatedCaches?: InputMaybe<Scalars['Boolean']['input']>;
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  containerExpirationPolicy?: InputMaybe<Scalars['JSON']['input']>;
  containerRegistryAccessLevel?: InputMaybe<Scalars['String']['input']>;
  defaultBranch?: InputMaybe<Scalars['String']['input']>;
  description?: InputMaybe<Scalars['String']['input']>;
  emailsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  enforceAuthChecksOnUploads?: InputMaybe<Scalars['Boolean']['input']>;
  externalAuthorizationClassificationLabel?: InputMaybe<Scalars['String']['input']>;
  forkingAccessLevel?: InputMaybe<Scalars['String']['input']>;
  fullPath: Scalars['ID']['input'];
  groupRunnersEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  issueBranchTemplate?: InputMaybe<Scalars['String']['input']>;
  issuesAccessLevel?: InputMaybe<Scalars['String']['input']>;
  keepLatestArtifact?: InputMaybe<Scalars['Boolean']['input']>;
  lfsEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  mergeCommitTemplate?: InputMaybe<Scalars['String']['input']>;
  mergeMethod?: InputMaybe<Scalars['String']['input']>;
  mergeRequestsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  mrDefaultTargetSelf?: InputMaybe<Scalars['Boolean']['input']>;
  name?: InputMaybe<Scalars['String']['input']>;
  onlyAllowMergeIfAllDiscussionsAreResolved?: InputMaybe<Scalars['Boolean']['input']>;
  onlyAllowMergeIfPipelineSucceeds?: InputMaybe<Scalars['Boolean']['input']>;
  packagesEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  pagesAccessLevel?: InputMaybe<Scalars['String']['input']>;
  path?: InputMaybe<Scalars['String']['input']>;
  printingMergeRequestLinkEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  publicJobs?: InputMaybe<Scalars['Boolean']['input']>;
  removeSourceBranchAfterMerge?: InputMaybe<Scalars['Boolean']['input']>;
  repositoryAccessLevel?: InputMaybe<Scalars['String']['input']>;
  requestAccessEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  requirementsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  resolveOutdatedDiffDiscussions?: InputMaybe<Scalars['Boolean']['input']>;
  restrictUserDefinedVariables?: InputMaybe<Scalars['Boolean']['input']>;
  runnerTokenExpirationInterval?: InputMaybe<Scalars['Int']['input']>;
  securityAndComplianceAccessLevel?: InputMaybe<Scalars['String']['input']>;
  serviceDeskEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  sharedRunnersEnabled?: InputMaybe<Scalars['Boolean']['input']>;
  snippetsAccessLevel?: InputMaybe<Scalars['String']['input']>;
  squashCommitTemplate?: InputMaybe<Scalars['String']['input']>;
  squashOption?: InputMaybe<Scalars['String']['input']>;
  suggestionCommitMessage?: InputMaybe<Scalars['String']['input']>;
  topics?: InputMaybe<Array<Scalars['String']['input']>>;
  visibility?: InputMaybe<VisibilityLevelsEnum>;
  warnAboutPotentiallyUnwantedCharacters?: InputMaybe<Scalars['Boolean']['input']>;
  wikiAccessLevel?: InputMaybe<Scalars['String']['input']>;
};

export type SharedRunnersSetting = 'DISABLED_AND_OVERRIDABLE' | 'DISABLED_AND_UNOVERRIDABLE' | 'ENABLED';

export type StarProjectInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  projectId: Scalars['ProjectID']['input'];
  starred: Scalars['Boolean']['input'];
};

export type UserCreateInput = {
  admin?: InputMaybe<Scalars['Boolean']['input']>;
  auditor?: InputMaybe<Scalars['Boolean']['input']>;
  bio?: InputMaybe<Scalars['String']['input']>;
  canCreateGroup?: InputMaybe<Scalars['Boolean']['input']>;
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  colorSchemeId?: InputMaybe<Scalars['Int']['input']>;
  commitEmail?: InputMaybe<Scalars['String']['input']>;
  discord?: InputMaybe<Scalars['String']['input']>;
  email: Scalars['String']['input'];
  externUid?: InputMaybe<Scalars['String']['input']>;
  external?: InputMaybe<Scalars['Boolean']['input']>;
  extraSharedRunnersMinutesLimit?: InputMaybe<Scalars['Int']['input']>;
  forceRandomPassword?: InputMaybe<Scalars['Boolean']['input']>;
  jobTitle?: InputMaybe<Scalars['String']['input']>;
  linkedin?: InputMaybe<Scalars['String']['input']>;
  location?: InputMaybe<Scalars['String']['input']>;
  name: Scalars['String']['input'];
  note?: InputMaybe<Scalars['String']['input']>;
  organization?: InputMaybe<Scalars['String']['input']>;
  password?: InputMaybe<Scalars['String']['input']>;
  privateProfile?: InputMaybe<Scalars['Boolean']['input']>;
  projectsLimit?: InputMaybe<Scalars['Int']['input']>;
  pronouns?: InputMaybe<Scalars['String']['input']>;
  provider?: InputMaybe<Scalars['String']['input']>;
  publicEmail?: InputMaybe<Scalars['String']['input']>;
  resetPassword?: InputMaybe<Scalars['Boolean']['input']>;
  sharedRunnersMinutesLimit?: InputMaybe<Scalars['Int']['input']>;
  skype?: InputMaybe<Scalars['String']['input']>;
  themeId?: InputMaybe<Scalars['Int']['input']>;
  twitter?: InputMaybe<Scalars['String']['input']>;
  username: Scalars['String']['input'];
  viewDiffsFileByFile?: InputMaybe<Scalars['Boolean']['input']>;
  websiteUrl?: InputMaybe<Scalars['String']['input']>;
};

export type UserDeleteInput = {
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  id: Scalars['UserID']['input'];
};

export type UserSort =
  | 'CREATED_ASC'
  | 'CREATED_DESC'
  | 'ID_ASC'
  | 'ID_DESC'
  | 'NAME_ASC'
  | 'NAME_DESC'
  | 'UPDATED_ASC'
  | 'UPDATED_DESC'
  | 'USERNAME_ASC'
  | 'USERNAME_DESC';

export type UserState = 'active' | 'banned' | 'blocked' | 'blocked_pending_approval' | 'deactivated' | 'ldap_blocked';

export type UserType = 'GHOST' | 'HUMAN' | 'PROJECT_BOT' | 'SERVICE_ACCOUNT' | 'SUPPORT_BOT';

export type UserUpdateInput = {
  admin?: InputMaybe<Scalars['Boolean']['input']>;
  auditor?: InputMaybe<Scalars['Boolean']['input']>;
  bio?: InputMaybe<Scalars['String']['input']>;
  canCreateGroup?: InputMaybe<Scalars['Boolean']['input']>;
  clientMutationId?: InputMaybe<Scalars['String']['input']>;
  colorSchemeId?: InputMaybe<Scalars['Int']['input']>;
  commitEmail?: InputMaybe<Scalars['String']['input']>;
  discord?: InputMaybe<Scalars['String']['input']>;
  email?: InputMaybe<Scalars['String']['input']>;
  externUid?: InputMaybe<Scalars['String']['input']>;
  external?: InputMaybe<Scalars['Boolean']['input']>;
  extraSharedRunnersMinutesLimit?: InputMaybe<Scalars['Int']['input']>;
  id: Scalars['UserID']['input'];
  jobTitle?: InputMaybe<Scalars['String']['input']>;
  linkedin?: InputMaybe<Scalars['String']['input']>;
  location?: InputMaybe<Scalars['String']['input']>;
  name?: InputMaybe<Scalars['String']['input']>;
  note?: InputMaybe<Scalars['String']['input']>;
  organization?: InputMaybe<Scalars['String']['input']>;
  password?: InputMaybe<Scalars['String']['input']>;
  privateProfile?: InputMaybe<Scalars['Boolean']['input']>;
  projectsLimit?: InputMaybe<Scalars['Int']['input']>;
  pronouns?: InputMaybe<Scalars['String']['input']>;
  provider?: InputMaybe<Scalars['String']['input']>;
  publicEmail?: InputMaybe<Scalars['String']['input']>;
  sharedRunnersMinutesLimit?: InputMaybe<Scalars['Int']['input']>;
  skype?: InputMaybe<Scalars['String']['input']>;
  themeId?: InputMaybe<Scalars['Int']['input']>;
  twitter?: InputMaybe<Scalars['String']['input']>;
  username?: InputMaybe<Scalars['String']['input']>;
  viewDiffsFileByFile?: InputMaybe<Scalars['Boolean']['input']>;
  websiteUrl?: InputMaybe<Scalars['String']['input']>;
};

/** Who may know of a project or group. */
export type VisibilityLevelsEnum = 'internal' | 'private' | 'public';
