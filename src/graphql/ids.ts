import { GraphQLScalarType, Kind, print } from 'graphql';
import { badInput } from './errors.ts';

/**
 * Scalars that accept the global ids of certain models and pass the number to the resolver. The first model is used for
 * output.
 */
export const ID_SCALARS = {
  ApprovalGroupRuleID: ['ApprovalGroupRule'],
  ApprovalMergeRequestRuleID: ['ApprovalMergeRequestRule'],
  ApprovalProjectRuleID: ['ApprovalProjectRule'],
  BoardID: ['Board'],
  CiJobArtifactID: ['Ci::JobArtifact'],
  CiPipelineID: ['Ci::Pipeline'],
  CiPipelineScheduleID: ['Ci::PipelineSchedule'],
  CiPipelineTriggerID: ['Ci::Trigger'],
  CiRunnerID: ['Ci::Runner'],
  CiStageID: ['Ci::Stage'],
  DeploymentID: ['Deployment'],
  EmailID: ['Email'],
  EnvironmentID: ['Environment'],
  ErrorTrackingClientKeyID: ['ErrorTracking::ClientKey'],
  ErrorTrackingErrorID: ['ErrorTracking::Error', 'Gitlab::ErrorTracking::DetailedError'],
  GitlabErrorTrackingDetailedErrorID: ['Gitlab::ErrorTracking::DetailedError', 'ErrorTracking::Error'],
  GroupID: ['Group'],
  IssueID: ['Issue', 'WorkItem'],
  JobID: ['Ci::Build', 'Ci::Bridge', 'CommitStatus'],
  LabelID: ['ProjectLabel', 'GroupLabel', 'Label'],
  MergeRequestID: ['MergeRequest'],
  MilestoneID: ['Milestone'],
  NamespaceID: ['Namespaces::UserNamespace', 'Group', 'Namespace'],
  NoteID: ['Note', 'DiffNote', 'DiscussionNote'],
  OauthApplicationID: ['OauthApplication'],
  PersonalAccessTokenID: ['PersonalAccessToken'],
  SessionID: ['Session'],
  ProjectID: ['Project'],
  ProjectsBranchRuleID: ['Projects::BranchRule'],
  ProjectsTopicID: ['Projects::Topic'],
  ReleaseID: ['Release'],
  ReleasesLinkID: ['Releases::Link'],
  SuggestionID: ['Suggestion'],
  SnippetID: ['Snippet', 'ProjectSnippet', 'PersonalSnippet'],
  TimelogID: ['Timelog'],
  TodoID: ['Todo'],
  UploadID: ['Upload'],
  UserID: ['User'],
  WebHookID: ['GroupHook', 'ProjectHook', 'SystemHook', 'WebHook'],
  WebHookLogID: ['WebHookLog'],
} as const satisfies Record<string, readonly string[]>;

/** Scalars over several tables. Resolvers get the model as well. */
export const MODEL_ID_SCALARS = {
  CustomAttributesOwnerID: ['User', 'Group', 'Project'],
  IssuableID: ['Issue', 'MergeRequest'],
  AwardableID: ['Issue', 'MergeRequest', 'Note'],
  NoteableID: ['Issue', 'MergeRequest', 'Snippet', 'Commit'],
} as const satisfies Record<string, readonly string[]>;

export interface ModelId {
  readonly model: string;
  readonly id: number;
}

/** The TypeScript types of the scalars above, for the builder. */
export type IdScalarTypes = {
  [K in keyof typeof ID_SCALARS]: { Input: number; Output: number };
} & { [K in keyof typeof MODEL_ID_SCALARS]: { Input: ModelId; Output: ModelId } };

/** `gid('Project', 12)` is `gid://gitlab/Project/12`. The host part is a constant name (reference: graphql §2). */
export const gid = (model: string, id: number): string => `gid://gitlab/${model}/${id}`;

/**
 * Returns the number in a global id of one of `models`.
 * @throws GraphQLError when the text is not a global id, or belongs to another model
 */
export const parseGid = (text: unknown, ...models: readonly string[]): number => parseModelGid(text, models).id;

const GID = /^gid:\/\/gitlab\/([A-Za-z]+(?:::[A-Za-z]+)*)\/([1-9]\d{0,15})$/;

const parseModelGid = (text: unknown, models: readonly string[]): ModelId => {
  const [, model, digits] = (typeof text === 'string' ? GID.exec(text) : null) ?? [];
  const id = Number(digits);
  if (model === undefined || !Number.isSafeInteger(id)) {
    throw badInput(`${JSON.stringify(text)?.slice(0, 100)} is not a valid global id`);
  }
  if (!models.includes(model)) throw badInput(`"${text}" does not represent an instance of ${models.join(' or ')}`);
  return { model, id };
};

/** Creates the GraphQL type of an id scalar. builder.ts registers them all. */
export const idScalar = (name: keyof typeof ID_SCALARS): GraphQLScalarType<number, string> => {
  const models = ID_SCALARS[name];
  const parse = (value: unknown) => parseGid(value, ...models);
  return new GraphQLScalarType({
    name,
    description: `A global id such as \`${gid(models[0], 1)}\`.`,
    coerceOutputValue: (value) => (typeof value === 'string' ? value : gid(models[0], Number(value))),
    coerceInputValue: parse,
    coerceInputLiteral: (node) => parse(node.kind === Kind.STRING ? node.value : print(node)),
  });
};

export const modelIdScalar = (name: keyof typeof MODEL_ID_SCALARS): GraphQLScalarType<ModelId, string> => {
  const models = MODEL_ID_SCALARS[name];
  const parse = (value: unknown) => parseModelGid(value, models);
  return new GraphQLScalarType({
    name,
    description: `The global id of one of: ${models.join(', ')}.`,
    coerceOutputValue: (value) => {
      if (isModelId(value)) return gid(value.model, value.id);
      throw badInput('not a global id');
    },
    coerceInputValue: parse,
    coerceInputLiteral: (node) => parse(node.kind === Kind.STRING ? node.value : print(node)),
  });
};

const isModelId = (value: unknown): value is ModelId =>
  typeof value === 'object' && value !== null && 'model' in value && 'id' in value;
