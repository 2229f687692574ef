import type { FieldMap, InputFieldMap, InputShapeFromFields, ShapeFromTypeParam, TypeParam } from '@pothos/core';
import type { Context } from '#platform/context.ts';
import { builder, type InputFields, type Types } from './builder.ts';
import { payloadErrors } from './errors.ts';
import { clearLoaders } from './loaders.ts';

builder.mutationType({});

type Outputs = Record<string, TypeParam<Types>>;

type Results<Payload extends Outputs> = { readonly [K in keyof Payload]?: ShapeFromTypeParam<Types, Payload[K], true> };

/** How a list given to a mutation changes the present one. */
export const MutationOperationMode = builder.enumType('MutationOperationMode', {
  values: { REPLACE: { value: 'replace' }, APPEND: { value: 'append' }, REMOVE: { value: 'remove' } } as const,
});

export interface MutationOptions<Fields extends InputFieldMap, Payload extends Outputs> {
  readonly description?: string;
  readonly deprecationReason?: string;
  readonly input: (t: InputFields) => Fields;
  readonly payload: Payload;
  readonly run: (ctx: Context, input: InputShapeFromFields<Fields>) => Promise<Results<Payload>>;
}

/**
 * Declares a mutation in the standard form (reference: graphql §4): one argument `input` of type `<Name>Input`, and a
 * `<Name>Payload` with the fields of `payload`, `errors` and `clientMutationId`. Validation failures are returned in
 * `errors`, with null for the other fields. Other failures are top-level errors (errors.ts).
 *
 *     mutationField('createIssue', {
 *       input: (t) => ({ projectPath: t.id({ required: true }), title: t.string({ required: true }) }),
 *       payload: { issue: IssueRef },
 *       run: async (ctx, input) => ({ issue: await createIssue(ctx, ...) }),
 *     })
 */
export function mutationField<Fields extends InputFieldMap, Payload extends Outputs>(
  name: string,
  options: MutationOptions<Fields, Payload>,
): void;
// The implementation only passes fields and results through, so it needs no precise types.
export function mutationField(name: string, options: MutationOptions<InputFieldMap, Outputs>): void {
  const typeName = name.charAt(0).toUpperCase() + name.slice(1);
  const payloadRef = builder.objectRef<PayloadShape>(`${typeName}Payload`);
  payloadRef.implement({
    fields: (t) => ({
      ...outputFields(t, options.payload),
      errors: t.stringList({
        nullable: { list: false, items: false },
        description: 'The problems with the input. Empty on success.',
        resolve: (payload) => payload.errors,
      }),
      clientMutationId: t.exposeString('clientMutationId', { nullable: true }),
    }),
  });

  builder.mutationField(name, (t) =>
    t.fieldWithInput({
      ...(options.description === undefined ? {} : { description: options.description }),
      ...(options.deprecationReason === undefined ? {} : { deprecationReason: options.deprecationReason }),
      type: payloadRef,
      nullable: true,
      input: { ...options.input(t.input), clientMutationId: t.input.string({ required: false }) },
      resolve: async (_root, { input: { clientMutationId = null, ...input } }, ctx) => {
        try {
          return { result: await options.run(ctx, input), errors: [], clientMutationId };
        } catch (error) {
          const errors = payloadErrors(error);
          if (!errors) throw error;
          return { result: null, errors, clientMutationId };
        } finally {
          clearLoaders(ctx);
        }
      },
    }),
  );
}

interface PayloadShape {
  readonly result: Results<Outputs> | null;
  readonly errors: readonly string[];
  readonly clientMutationId: string | null;
}

const outputFields = (t: PothosSchemaTypes.ObjectFieldBuilder<Types, PayloadShape>, payload: Outputs): FieldMap =>
  Object.fromEntries(
    Object.entries(payload).map(([name, type]) => [
      name,
      t.field({ type, nullable: true, resolve: ({ result }) => result?.[name] ?? null }),
    ]),
  );
