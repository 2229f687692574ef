import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { mapRecord } from '#platform/values/map-record.ts';
import { createPushRule, deletePushRule, updatePushRule } from './commands.ts';
import {
  FLAGS,
  type Flag,
  MAX_FILE_SIZE,
  PATTERNS,
  type Pattern,
  type PushRule,
  type PushRuleAttributes,
} from './model.ts';
import { pushRulesOf } from './queries.ts';

/** The attributes by the names of their fields and inputs. */
const FLAG_FIELDS = {
  commitCommitterCheck: 'commit_committer_check',
  commitCommitterNameCheck: 'commit_committer_name_check',
  rejectUnsignedCommits: 'reject_unsigned_commits',
  rejectNonDcoCommits: 'reject_non_dco_commits',
  denyDeleteTag: 'deny_delete_tag',
  memberCheck: 'member_check',
  preventSecrets: 'prevent_secrets',
} as const satisfies Record<string, Flag>;
const PATTERN_FIELDS = {
  commitMessageRegex: 'commit_message_regex',
  commitMessageNegativeRegex: 'commit_message_negative_regex',
  branchNameRegex: 'branch_name_regex',
  authorEmailRegex: 'author_email_regex',
  fileNameRegex: 'file_name_regex',
} as const satisfies Record<string, Pattern>;

const PushRuleRef = builder.objectRef<PushRule>('PushRule').implement({
  description: 'Rules for pushes to a project, or to all projects below a group.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (rule) => gid('PushRule', rule.id) }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    ...mapRecord(FLAG_FIELDS, (name: Flag) =>
      t.exposeBoolean(name, { nullable: false, description: `Refuses: ${FLAGS[name]}` }),
    ),
    ...mapRecord(PATTERN_FIELDS, (name: Pattern) =>
      t.exposeString(name, { nullable: false, description: PATTERNS[name] }),
    ),
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

const attributeFields = (t: InputFields) => ({
  ...mapRecord(FLAG_FIELDS, (name: Flag) => t.boolean({ description: `Refuse: ${FLAGS[name]}` })),
  ...mapRecord(PATTERN_FIELDS, (name: Pattern) => t.string({ description: PATTERNS[name] })),
  maxFileSize: t.int({ description: MAX_FILE_SIZE }),
});

type AttributeInput = { readonly [F in keyof typeof FLAG_FIELDS]?: boolean | null | undefined } & {
  readonly [F in keyof typeof PATTERN_FIELDS]?: string | null | undefined;
} & { readonly maxFileSize?: number | null | undefined };

const attributesOf = (input: AttributeInput): PushRuleAttributes => {
  const attributes: { -readonly [K in keyof PushRuleAttributes]: PushRuleAttributes[K] } = {};
  mapRecord(FLAG_FIELDS, (name: Flag, field) => {
    attributes[name] = input[field] ?? undefined;
  });
  mapRecord(PATTERN_FIELDS, (name: Pattern, field) => {
    attributes[name] = input[field];
  });
  return { ...attributes, max_file_size: input.maxFileSize };
};

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
