import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import type { OwnerAddress } from '#domains/planning/container.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { type ConnectionArguments, listConnection } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { badParameters } from '#platform/errors.ts';
import { createVariable, deleteVariable, updateVariable } from './commands.ts';
import { type CiVariableRow, shownValue, VARIABLE_TYPES, type VariableType } from './model.ts';
import { listVariables, listVariablesBelow } from './queries.ts';

export const CiVariableTypeEnum = builder.enumType('CiVariableType', { values: upperCase(VARIABLE_TYPES) });

const CiVariableRef = builder.objectRef<CiVariableRow>('CiVariable').implement({
  description: 'A variable that a project, a group or the instance passes to jobs.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (row) => gid(modelOf(row), row.id) }),
    key: t.exposeString('key'),
    value: t.string({
      description: 'Null if the variable is hidden, or was encrypted with a lost key.',
      resolve: (row, _args, ctx) => shownValue(ctx, row),
    }),
    variableType: t.field({
      type: CiVariableTypeEnum,
      resolve: ({ variable_type }) => VARIABLE_TYPES.find((type) => type === variable_type) ?? null,
    }),
    environmentScope: t.exposeString('environment_scope'),
    description: t.exposeString('description'),
    protected: t.exposeBoolean('protected'),
    masked: t.exposeBoolean('masked'),
    hidden: t.exposeBoolean('hidden'),
    raw: t.exposeBoolean('raw'),
  }),
});

const modelOf = ({ project_id, namespace_id }: CiVariableRow): string =>
  project_id !== null ? 'Ci::Variable' : namespace_id !== null ? 'Ci::GroupVariable' : 'Ci::InstanceVariable';

const CiVariableConnection = builder.connectionObject(
  { type: CiVariableRef, name: 'CiVariableConnection' },
  { name: 'CiVariableEdge' },
);

const projectVariables = batchedConnection((ctx, _args: ConnectionArguments) => listVariablesBelow(ctx, 'project'));
const groupVariables = batchedConnection((ctx, _args: ConnectionArguments) => listVariablesBelow(ctx, 'group'));

projectField('ciVariables', JUDGED, (t) =>
  t.connection(
    {
      type: CiVariableRef,
      nullable: true,
      description: 'The variables of the project itself. Only for maintainers; null for other callers.',
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'admin_cicd_variables') ? projectVariables(project.id, args, ctx, info) : null,
    },
    CiVariableConnection,
  ),
);

builder.objectField(GroupRef, 'ciVariables', (t) =>
  t.connection(
    {
      type: CiVariableRef,
      nullable: true,
      description: 'The variables of the group itself. Only for owners; null for other callers.',
      resolve: (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'admin_cicd_variables') ? groupVariables(group.id, args, ctx, info) : null,
    },
    CiVariableConnection,
  ),
);

builder.queryField('ciVariables', (t) =>
  t.connection(
    {
      type: CiVariableRef,
      nullable: true,
      description: 'The variables of the instance. Only for administrators; null for other callers.',
      resolve: async (_root, args, ctx, info) =>
        ctx.actor.isAdmin ? listConnection(args, info, await listVariables(ctx, { kind: 'instance' })) : null,
    },
    CiVariableConnection,
  ),
);

const placeFields = (t: InputFields) => ({
  projectPath: t.id({ description: 'The project. Without it and a group, the variable is of the instance.' }),
  groupPath: t.id(),
  key: t.string({ required: true }),
});

const attributeFields = (t: InputFields) => ({
  variableType: t.field({ type: CiVariableTypeEnum }),
  protected: t.boolean({ description: 'Only jobs of protected branches and tags get it.' }),
  masked: t.boolean({ description: 'The value is hidden in logs.' }),
  raw: t.boolean({ description: 'References to other variables in the value are left alone.' }),
  description: t.string(),
  environmentScope: t.string({ description: 'The environments whose jobs get it. `*` matches anything.' }),
});

type Given<T> = T | null | undefined;

interface OwnerInput {
  readonly projectPath?: Given<string>;
  readonly groupPath?: Given<string>;
}

const placeOf = ({ projectPath, groupPath }: OwnerInput): OwnerAddress => {
  if (projectPath != null && groupPath != null) throw badParameters('projectPath, groupPath are mutually exclusive');
  if (projectPath != null) return { kind: 'project', id: { path: projectPath } };
  return groupPath == null ? { kind: 'instance' } : { kind: 'group', id: { path: groupPath } };
};

interface Attributes {
  readonly variableType?: Given<VariableType>;
  readonly protected?: Given<boolean>;
  readonly masked?: Given<boolean>;
  readonly raw?: Given<boolean>;
  readonly description?: Given<string>;
  readonly environmentScope?: Given<string>;
}

const attributesOf = (input: Attributes) => ({
  variable_type: input.variableType ?? undefined,
  protected: input.protected ?? undefined,
  masked: input.masked ?? undefined,
  raw: input.raw ?? undefined,
  description: input.description,
  environment_scope: input.environmentScope ?? undefined,
});

const whichFields = (t: InputFields) => ({
  ...placeFields(t),
  filterEnvironmentScope: t.string({ description: 'Selects one of several variables with the same key.' }),
});

mutationField('ciVariableCreate', {
  description: 'Creates a variable of a project, a group or the instance.',
  input: (t) => ({
    ...placeFields(t),
    value: t.string({ required: true }),
    ...attributeFields(t),
    maskedAndHidden: t.boolean({ description: 'Masked, and the value is never shown again.' }),
  }),
  payload: { ciVariable: CiVariableRef },
  run: async (ctx, input) => ({
    ciVariable: await createVariable(ctx, placeOf(input), {
      ...attributesOf(input),
      key: input.key,
      value: input.value,
      masked_and_hidden: input.maskedAndHidden ?? undefined,
    }),
  }),
});

mutationField('ciVariableUpdate', {
  description: 'Changes a variable of a project, a group or the instance.',
  input: (t) => ({ ...whichFields(t), value: t.string(), ...attributeFields(t) }),
  payload: { ciVariable: CiVariableRef },
  run: async (ctx, input) => ({
    ciVariable: await updateVariable(
      ctx,
      placeOf(input),
      { key: input.key, environment_scope: input.filterEnvironmentScope ?? undefined },
      { ...attributesOf(input), value: input.value ?? undefined },
    ),
  }),
});

mutationField('ciVariableDestroy', {
  description: 'Deletes a variable of a project, a group or the instance.',
  input: whichFields,
  payload: { ciVariable: CiVariableRef },
  run: async (ctx, input) => ({
    ciVariable: await deleteVariable(ctx, placeOf(input), {
      key: input.key,
      environment_scope: input.filterEnvironmentScope ?? undefined,
    }),
  }),
});
