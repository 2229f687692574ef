import { RepositoryRef } from '#domains/repositories/graphql.ts';
import { builder } from '#graphql/builder.ts';
import type { CodeOwnersProblem } from '../code-owners/parse.ts';
import { problemsOfCodeOwners } from '../code-owners/validating.ts';

interface Problem {
  readonly code: string;
  readonly lines: readonly number[];
}

const CodeownerError = builder.objectRef<Problem>('RepositoryCodeownerError').implement({
  fields: (t) => ({
    code: t.exposeString('code', { nullable: false }),
    lines: t.intList({ nullable: { list: false, items: false }, resolve: ({ lines }) => [...lines] }),
  }),
});

const CodeownerValidation = builder.objectRef<readonly CodeOwnersProblem[]>('RepositoryCodeownerValidation').implement({
  description: 'The lines of a CODEOWNERS file that cannot be understood.',
  fields: (t) => ({
    total: t.int({ nullable: false, resolve: (problems) => problems.length }),
    validationErrors: t.field({
      type: [CodeownerError],
      nullable: { list: false, items: false },
      resolve: (problems) =>
        [...Map.groupBy(problems, ({ code }) => code)].map(([code, found]) => ({
          code,
          lines: found.map(({ line }) => line),
        })),
    }),
  }),
});

builder.objectField(RepositoryRef, 'validateCodeownerFile', (t) =>
  t.field({
    type: CodeownerValidation,
    nullable: true,
    extensions: { cost: 5 },
    description: 'Null if the branch has no such file.',
    args: {
      ref: t.arg.string({ required: true }),
      path: t.arg.string({ description: 'One of the places of CODEOWNERS. By default the one that counts.' }),
    },
    resolve: (project, { ref, path }, ctx) => problemsOfCodeOwners(ctx, project, { ref, path: path ?? null }),
  }),
);
