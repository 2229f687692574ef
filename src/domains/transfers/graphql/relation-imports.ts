import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { subscriptionField, type Update, updateFields, updateOf } from '#graphql/subscription.ts';
import { RELATION_IMPORT_KINDS, type RelationImportState, relationImportState } from '../events.ts';
import { getProjectOfTransfers } from '../queries.ts';
import { IMPORTABLE_RELATIONS, RELATION_IMPORT_STATUSES, type RelationImportRow } from '../relation-imports/model.ts';
import { relationImportsBelow } from '../relation-imports/queries.ts';

const RelationEnum = builder.enumType('ImportableRelation', {
  description: 'A relation that can be imported by itself.',
  values: {
    ISSUES: { value: 'issues' },
    MILESTONES: { value: 'milestones' },
    CI_PIPELINES: { value: 'ci_pipelines' },
    MERGE_REQUESTS: { value: 'merge_requests' },
  } as const,
});

const StatusEnum = builder.enumType('RelationImportStatus', {
  values: {
    CREATED: { value: 'created' },
    STARTED: { value: 'started' },
    FINISHED: { value: 'finished' },
    FAILED: { value: 'failed' },
  } as const,
});

const RelationImportRef = builder.objectRef<RelationImportRow>('RelationImport').implement({
  description:
    'The import of one relation of an archive into an existing project. Archives are uploaded over REST: `POST /projects/import-relation`.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => String(id) }),
    relation: t.field({
      type: RelationEnum,
      nullable: false,
      resolve: ({ relation }) => IMPORTABLE_RELATIONS.find((each) => each === relation) ?? 'issues',
    }),
    status: t.field({
      type: StatusEnum,
      nullable: false,
      resolve: ({ status }) => RELATION_IMPORT_STATUSES.find((each) => each === status) ?? 'failed',
    }),
    done: t.exposeInt('done_lines', { nullable: false, description: 'The number of finished items.' }),
    total: t.exposeInt('total_lines'),
    skipped: t.exposeInt('skipped_lines', {
      nullable: false,
      description: 'The number of items that the project had already.',
    }),
    error: t.exposeString('error'),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
    finishedAt: t.expose('finished_at', { type: 'Time' }),
  }),
});

const RelationImportConnection = builder.connectionObject(
  { type: RelationImportRef, name: 'RelationImportConnection' },
  { name: 'RelationImportEdge' },
);

const relationImportsOf = batchedConnection((ctx) => relationImportsBelow(ctx));

projectField('relationImports', JUDGED, (t) =>
  t.connection(
    {
      type: RelationImportRef,
      nullable: true,
      description: 'Newest first. Only for Maintainers and above.',
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'export') ? relationImportsOf(project.id, args, ctx, info) : null,
    },
    RelationImportConnection,
  ),
);

interface RelationImportUpdate extends Update {
  readonly payload: RelationImportState;
}

const UpdateRef = builder.objectRef<RelationImportUpdate>('RelationImportUpdate').implement({
  description: 'The state of a relation import at one moment.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    ...updateFields(t),
    importId: t.id({ nullable: false, resolve: ({ payload }) => String(payload.id) }),
    relation: t.field({ type: RelationEnum, nullable: false, resolve: ({ payload }) => payload.relation }),
    status: t.field({ type: StatusEnum, nullable: false, resolve: ({ payload }) => payload.status }),
    done: t.int({ nullable: false, resolve: ({ payload }) => payload.done }),
    total: t.int({ resolve: ({ payload }) => payload.total }),
    skipped: t.int({ nullable: false, resolve: ({ payload }) => payload.skipped }),
    error: t.string({ resolve: ({ payload }) => payload.error }),
  }),
});

subscriptionField('relationImportUpdated', {
  description: 'Follows the relation imports of a project. Only for its Maintainers.',
  type: UpdateRef,
  args: (t) => ({ fullPath: t.id({ required: true }) }),
  open: async (ctx, { fullPath }) => {
    const { id } = await getProjectOfTransfers(ctx, String(fullPath));
    return { kinds: RELATION_IMPORT_KINDS, project_id: id };
  },
  resolve: async (event) => ({
    ...updateOf(event),
    payload: relationImportState.parse(event.payload),
  }),
});
