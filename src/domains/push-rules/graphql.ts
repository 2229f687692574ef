import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder, type Types } from '#graphql/builder.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { createPushRule, deletePushRule, updatePushRule } from './commands.ts';
import { FLAGS, MAX_FILE_SIZE, PATTERNS, type PushRule, type PushRuleAttributes } from './model.ts';
import { pushRulesOf } from './queries.ts';

type ObjectFields = PothosSchemaTypes.ObjectFieldBuilder<Types, PushRule>;

const flag = (t: ObjectFields, name: keyof typeof FLAGS) =>
  t.exposeBoolean(name, { nullable: false, description: `Refuses: ${FLAGS[name]}` });
const pattern = (t: ObjectFields, name: keyof typeof PATTERNS) =>
  t.exposeString(name, { nullable: false, description: PATTERNS[name] });

const PushRuleRef = builder.objectRef<PushRule>('PushRule').implement({
  description: 'Rules for pushes to a project, or to all projects below a group.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (rule) => gid('PushRule', rule.id) }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    commitCommitterCheck: flag(t, 'commit_committer_check'),
    commitCommitterNameCheck: flag(t, 'commit_committer_name_check'),
    rejectUnsignedCommits: flag(t, 'reject_unsigned_commits'),
    rejectNonDcoCommits: flag(t, 'reject_non_dco_commits'),
    commitMessageRegex: pattern(t, 'commit_message_regex'),
    commitMessageNegativeRegex: pattern(t, 'commit_message_negative_regex'),
    branchNameRegex: pattern(t, 'branch_name_regex'),
    authorEmailRegex: pattern(t, 'author_email_regex'),
    fileNameRegex: pattern(t, 'file_name_regex'),
    denyDeleteTag: flag(t, 'deny_delete_tag'),
    memberCheck: flag(t, 'member_check'),
    preventSecrets: flag(t, 'prevent_secrets'),
    maxFileSize: t.exposeInt('max_file_size', { nullable: false, description: MAX_FILE_SIZE }),
  }),
});

const ruleOf = { group: loader(pushRulesOf('group')), project: loader(pushRulesOf('project')) } as const;

builder.objectField(GroupRef, 'pushRule', (t) =>
  t.field({
    type: PushRuleRef,
    nullable: true,
    description: 'The rule of this group itself. Only for owners; null for other callers.',
    resolve: (group, _args, ctx) => (canOnGroup(ctx, group, 'admin_push_rule') ? ruleOf.group(ctx, group.id) : null),
  }),
);

projectField('pushRule', JUDGED, (t) =>
  t.field({
    type: PushRuleRef,
    nullable: true,
    description: 'The rule of this project itself. Only for maintainers; null for other callers.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'admin_push_rule') ? ruleOf.project(ctx, project.id) : null),
  }),
);

type InputFields = PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>;

const attributeFields = (t: InputFields) => {
  const on = (name: keyof typeof FLAGS) => t.boolean({ description: `Refuse: ${FLAGS[name]}` });
  const like = (name: keyof typeof PATTERNS) => t.string({ description: PATTERNS[name] });
  return {
    commitCommitterCheck: on('commit_committer_check'),
    commitCommitterNameCheck: on('commit_committer_name_check'),
    rejectUnsignedCommits: on('reject_unsigned_commits'),
    rejectNonDcoCommits: on('reject_non_dco_commits'),
    commitMessageRegex: like('commit_message_regex'),
    commitMessageNegativeRegex: like('commit_message_negative_regex'),
    branchNameRegex: like('branch_name_regex'),
    authorEmailRegex: like('author_email_regex'),
    fileNameRegex: like('file_name_regex'),
    denyDeleteTag: on('deny_delete_tag'),
    memberCheck: on('member_check'),
    preventSecrets: on('prevent_secrets'),
    maxFileSize: t.int({ description: MAX_FILE_SIZE }),
  };
};

type Given<T> = T | null | undefined;

interface AttributeInput {
  readonly commitCommitterCheck?: Given<boolean>;
  readonly commitCommitterNameCheck?: Given<boolean>;
  readonly rejectUnsignedCommits?: Given<boolean>;
  readonly rejectNonDcoCommits?: Given<boolean>;
  readonly commitMessageRegex?: Given<string>;
  readonly commitMessageNegativeRegex?: Given<string>;
  readonly branchNameRegex?: Given<string>;
  readonly authorEmailRegex?: Given<string>;
  readonly fileNameRegex?: Given<string>;
  readonly denyDeleteTag?: Given<boolean>;
  readonly memberCheck?: Given<boolean>;
  readonly preventSecrets?: Given<boolean>;
  readonly maxFileSize?: Given<number>;
}

const attributesOf = (input: AttributeInput): PushRuleAttributes => ({
  commit_committer_check: input.commitCommitterCheck ?? undefined,
  commit_committer_name_check: input.commitCommitterNameCheck ?? undefined,
  reject_unsigned_commits: input.rejectUnsignedCommits ?? undefined,
  reject_non_dco_commits: input.rejectNonDcoCommits ?? undefined,
  commit_message_regex: input.commitMessageRegex,
  commit_message_negative_regex: input.commitMessageNegativeRegex,
  branch_name_regex: input.branchNameRegex,
  author_email_regex: input.authorEmailRegex,
  file_name_regex: input.fileNameRegex,
  deny_delete_tag: input.denyDeleteTag ?? undefined,
  member_check: input.memberCheck ?? undefined,
  prevent_secrets: input.preventSecrets ?? undefined,
  max_file_size: input.maxFileSize,
});

for (const kind of ['group', 'project'] as const) {
  const pathField = (t: InputFields) => ({ [`${kind}Path`]: t.id({ required: true }) });
  const placeOf = (input: object) => ({ kind, id: { path: String(Reflect.get(input, `${kind}Path`)) } });
  const payload = { pushRule: PushRuleRef };

  mutationField(`${kind}PushRuleCreate`, {
    description: `Creates the push rule of a ${kind} that has none.`,
    input: (t) => ({ ...pathField(t), ...attributeFields(t) }),
    payload,
    run: async (ctx, input) => ({ pushRule: await createPushRule(ctx, placeOf(input), attributesOf(input)) }),
  });

  mutationField(`${kind}PushRuleUpdate`, {
    description: `Changes the push rule of a ${kind}.`,
    input: (t) => ({ ...pathField(t), ...attributeFields(t) }),
    payload,
    run: async (ctx, input) => ({ pushRule: await updatePushRule(ctx, placeOf(input), attributesOf(input)) }),
  });

  mutationField(`${kind}PushRuleDestroy`, {
    description: `Deletes the push rule of a ${kind}.`,
    input: pathField,
    payload: {},
    run: async (ctx, input) => {
      await deletePushRule(ctx, placeOf(input));
      return {};
    },
  });
}
