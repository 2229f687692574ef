import type { IncludedFile } from '#domains/ci-config/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { mutationField } from '#graphql/mutation.ts';
import { type LintedJob, type LintResult, lintFile } from '../creation/lint.ts';

// The lists are nested four deep, and short in nearly every file.
const NESTED = { extensions: { usualSize: 5 } } as const;

const StatusEnum = builder.enumType('CiConfigStatus', { values: upperCase(['valid', 'invalid']) });

const IncludeTypeEnum = builder.enumType('CiConfigIncludeType', {
  values: {
    LOCAL: { value: 'local' },
    FILE: { value: 'file' },
    REMOTE: { value: 'remote' },
    TEMPLATE: { value: 'template' },
    COMPONENT: { value: 'component' },
    ARTIFACT: { value: 'artifact' },
  } as const satisfies Record<string, { value: IncludedFile['type'] }>,
});

const IncludeRef = builder.objectRef<IncludedFile>('CiConfigInclude').implement({
  description: 'A file that a CI file includes.',
  fields: (t) => ({
    type: t.field({ type: IncludeTypeEnum, resolve: ({ type }) => type }),
    location: t.exposeString('location', { description: 'As written in the file.' }),
    blob: t.exposeString('blob', { nullable: true, description: 'URL of its page.' }),
    raw: t.exposeString('raw', { nullable: true, description: 'URL of its content.' }),
    extra: t.field({ type: 'JSON', resolve: ({ extra }) => extra }),
    contextProject: t.exposeString('context_project', { nullable: true }),
    contextSha: t.exposeString('context_sha', { nullable: true }),
  }),
});

const NeedRef = builder.objectRef<{ readonly name: string }>('CiConfigNeed').implement({
  fields: (t) => ({ name: t.exposeString('name') }),
});
const NeedConnection = builder.connectionObject(
  { type: NeedRef, name: 'CiConfigNeedConnection' },
  { name: 'CiConfigNeedEdge' },
);

const RestrictionRef = builder.objectRef<readonly string[]>('CiConfigJobRestriction').implement({
  fields: (t) => ({ refs: t.stringList({ resolve: (refs) => [...refs] }) }),
});

const JobRef = builder.objectRef<LintedJob>('CiConfigJob').implement({
  description: 'A job of a checked CI file.',
  fields: (t) => ({
    name: t.string({ resolve: ({ job }) => job.name }),
    groupName: t.string({ resolve: ({ definition }) => definition.base_name }),
    stage: t.string({ resolve: ({ job }) => job.stage }),
    when: t.string({ resolve: ({ job }) => job.when }),
    allowFailure: t.boolean({ resolve: ({ job }) => job.allow_failure }),
    environment: t.string({ nullable: true, resolve: ({ job }) => job.environment?.name ?? null }),
    beforeScript: t.stringList({ resolve: ({ job, definition }) => job.script.slice(0, definition.before_lines) }),
    script: t.stringList({ resolve: ({ job, definition }) => job.script.slice(definition.before_lines) }),
    afterScript: t.stringList({ resolve: ({ job }) => [...job.after_script] }),
    tags: t.stringList({ resolve: ({ job }) => [...job.tags] }),
    only: t.field({ type: RestrictionRef, nullable: true, resolve: ({ definition }) => definition.only?.refs ?? null }),
    except: t.field({
      type: RestrictionRef,
      nullable: true,
      resolve: ({ definition }) => definition.except?.refs ?? null,
    }),
    needs: t.connection(
      {
        ...NESTED,
        type: NeedRef,
        nullable: true,
        resolve: ({ job }, args, _ctx, info) =>
          connection(args, info, (page) => pageOfAll(page, job.needs ?? [], ({ name }) => [name])),
      },
      NeedConnection,
    ),
  }),
});
const JobConnection = builder.connectionObject(
  { type: JobRef, name: 'CiConfigJobConnection' },
  { name: 'CiConfigJobEdge' },
);

interface Group {
  readonly name: string;
  readonly jobs: readonly LintedJob[];
}

const GroupRef = builder.objectRef<Group>('CiConfigGroup').implement({
  description: 'The jobs that `parallel` makes of one.',
  fields: (t) => ({
    name: t.exposeString('name'),
    size: t.int({ resolve: ({ jobs }) => jobs.length }),
    jobs: t.connection(
      {
        ...NESTED,
        type: JobRef,
        resolve: ({ jobs }, args, _ctx, info) =>
          connection(args, info, (page) => pageOfAll(page, jobs, ({ job }) => [job.name])),
      },
      JobConnection,
    ),
  }),
});
const GroupConnection = builder.connectionObject(
  { type: GroupRef, name: 'CiConfigGroupConnection' },
  { name: 'CiConfigGroupEdge' },
);

interface Stage {
  readonly name: string;
  readonly groups: readonly Group[];
}

const StageRef = builder.objectRef<Stage>('CiConfigStage').implement({
  fields: (t) => ({
    name: t.exposeString('name'),
    groups: t.connection(
      {
        ...NESTED,
        type: GroupRef,
        resolve: ({ groups }, args, _ctx, info) =>
          connection(args, info, (page) => pageOfAll(page, groups, ({ name }) => [name])),
      },
      GroupConnection,
    ),
  }),
});
const StageConnection = builder.connectionObject(
  { type: StageRef, name: 'CiConfigStageConnection' },
  { name: 'CiConfigStageEdge' },
);

const stagesOf = ({ stages, jobs }: LintResult): Stage[] =>
  stages.flatMap((name) => {
    const groups = Map.groupBy(
      jobs.filter(({ job }) => job.stage === name),
      ({ definition }) => definition.base_name,
    );
    return groups.size === 0
      ? []
      : [{ name, groups: [...groups].map(([group, each]) => ({ name: group, jobs: each })) }];
  });

const ConfigRef = builder.objectRef<LintResult>('CiConfig').implement({
  description: 'The result of checking a CI file.',
  fields: (t) => ({
    status: t.field({ type: StatusEnum, resolve: ({ valid }) => (valid ? 'valid' : 'invalid') }),
    errors: t.stringList({ resolve: ({ errors }) => [...errors] }),
    warnings: t.stringList({ resolve: ({ warnings }) => [...warnings] }),
    mergedYaml: t.exposeString('merged_yaml', { nullable: true }),
    includes: t.field({ type: [IncludeRef], resolve: ({ includes }) => [...includes] }),
    stages: t.connection(
      {
        ...NESTED,
        type: StageRef,
        description: 'Those that have jobs.',
        resolve: (result, args, _ctx, info) =>
          connection(args, info, (page) => pageOfAll(page, stagesOf(result), ({ name }) => [name])),
      },
      StageConnection,
    ),
  }),
});

mutationField('ciLint', {
  description: 'Checks the content of a CI file. Changes nothing.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    content: t.string({ required: true }),
    ref: t.string({ description: 'The branch or tag of a simulated pipeline. Defaults to the default branch.' }),
    dryRun: t.boolean({ description: 'Simulates a pipeline, so that rules decide about the jobs.' }),
  }),
  payload: { config: ConfigRef },
  run: async (ctx, { projectPath, content, ref, dryRun }) => ({
    config: await lintFile(ctx, await getProject(ctx, { path: projectPath }), {
      content,
      dry_run: dryRun ?? false,
      ref: ref ?? undefined,
    }),
  }),
});

builder.queryField('ciConfig', (t) =>
  t.field({
    type: ConfigRef,
    nullable: true,
    description: 'Checks the content of a CI file.',
    args: {
      projectPath: t.arg.id({ required: true }),
      content: t.arg.string({ required: true }),
      sha: t.arg.string({ description: 'The commit that local includes are read from.' }),
      dryRun: t.arg.boolean(),
    },
    resolve: async (_root, { projectPath, content, sha, dryRun }, ctx) =>
      lintFile(ctx, await getProject(ctx, { path: String(projectPath) }), {
        content,
        dry_run: dryRun ?? false,
        content_ref: sha ?? undefined,
      }),
  }),
);
