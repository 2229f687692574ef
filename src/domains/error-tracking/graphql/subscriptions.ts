import { builder } from '#graphql/builder.ts';
import { gid } from '#graphql/ids.ts';
import { subscriptionField, type Update, updateFields, updateOf } from '#graphql/subscription.ts';
import type { Context } from '#platform/context.ts';
import { type ErrorRow, errorsByIds, getErrorProject } from '../errors/queries.ts';
import {
  type CountsPayload,
  errorCreated,
  errorDeleted,
  errorMerged,
  errorRegressed,
  errorResolved,
  errorsCounted,
  errorUpdated,
} from '../events.ts';
import { ErrorRef } from './errors.ts';

const CHANGES = {
  [errorCreated.kind]: 'CREATED',
  [errorRegressed.kind]: 'REGRESSED',
  [errorResolved.kind]: 'RESOLVED',
  [errorUpdated.kind]: 'UPDATED',
  [errorMerged.kind]: 'MERGED',
  [errorDeleted.kind]: 'DELETED',
} as const;
const KINDS = new Set(Object.keys(CHANGES));
const COUNTED = new Set([errorsCounted.kind]);

const Change = builder.enumType('ErrorTrackingErrorChange', {
  values: ['CREATED', 'REGRESSED', 'RESOLVED', 'UPDATED', 'MERGED', 'DELETED'] as const,
});

interface ErrorUpdate extends Update {
  readonly change: (typeof CHANGES)[keyof typeof CHANGES];
  readonly errorId: number;
  readonly error: ErrorRow | null;
  readonly mergedInto: ErrorRow | null;
}

const UpdateRef = builder.objectRef<ErrorUpdate>('ErrorTrackingErrorUpdate').implement({
  description: 'An error is new, occurred again after it was resolved, was changed, or is gone.',
  fields: (t) => ({
    ...updateFields(t),
    change: t.expose('change', { type: Change, nullable: false }),
    errorId: t.id({ nullable: false, resolve: ({ errorId }) => gid('ErrorTracking::Error', errorId) }),
    error: t.expose('error', { type: ErrorRef, description: 'As it is now. Null if it has been merged or deleted.' }),
    mergedInto: t.expose('mergedInto', {
      type: ErrorRef,
      description: 'With MERGED: the error that it is a part of, as it is now.',
    }),
  }),
});

const Count = builder.objectRef<CountsPayload['errors'][number]>('ErrorTrackingErrorCount').implement({
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('ErrorTracking::Error', id) }),
    count: t.exposeInt('event_count', { nullable: false }),
    userCount: t.exposeInt('user_count', { nullable: false }),
    firstSeen: t.expose('first_seen', { type: 'Time', nullable: false }),
    lastSeenAt: t.expose('last_seen', { type: 'Time', nullable: false }),
  }),
});

const CountsRef = builder.objectRef<CountsPayload & Update>('ErrorTrackingCountsUpdate').implement({
  description: 'The counts of errors that occurred.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    ...updateFields(t),
    errors: t.field({
      type: [Count],
      nullable: { list: false, items: false },
      description: 'At most 500, the newest errors.',
      resolve: ({ errors }) => [...errors],
    }),
  }),
});

const openFor = async (ctx: Context, fullPath: string | number, kinds: ReadonlySet<string>) => {
  const { id } = await getErrorProject(ctx, { path: String(fullPath) });
  return { kinds, project_id: id };
};

subscriptionField('errorTrackingErrorUpdated', {
  description:
    'Follows the errors of a project: new ones, regressions, and what people do with them, up to their deletion. Not their counts.',
  type: UpdateRef,
  args: (t) => ({ fullPath: t.id({ required: true }) }),
  open: (ctx, { fullPath }) => openFor(ctx, fullPath, KINDS),
  resolve: async (event, _args, ctx) => {
    const change = CHANGES[event.kind];
    if (!change) return null;
    const errorId = event.subject_id;
    const intoId = change === 'MERGED' ? errorMerged.payload.parse(event.payload).into_id : null;
    const errors = await errorsByIds(ctx, intoId === null ? [errorId] : [errorId, intoId]);
    return {
      ...{ ...updateOf(event), change, errorId },
      error: errors.get(errorId) ?? null,
      mergedInto: (intoId === null ? undefined : errors.get(intoId)) ?? null,
    };
  },
});

subscriptionField('errorTrackingCountsUpdated', {
  description: 'Follows the counts of the errors of a project, with at most one update a second.',
  type: CountsRef,
  args: (t) => ({ fullPath: t.id({ required: true }) }),
  open: (ctx, { fullPath }) => openFor(ctx, fullPath, COUNTED),
  resolve: async (event) => ({
    ...errorsCounted.payload.parse(event.payload),
    ...updateOf(event),
  }),
});
