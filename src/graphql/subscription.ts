import type { ArgBuilder, InputFieldMap, InputShapeFromFields, ObjectRef } from '@pothos/core';
import type { Context } from '#platform/context.ts';
import { decodeCursor, encodeCursor } from '#platform/cursor.ts';
import type { LiveFilter } from '#platform/event-log/read.ts';
import type { EventRow } from '#platform/events.ts';
import { builder, type Types } from './builder.ts';

builder.subscriptionType({});

export interface SubscriptionOptions<Args extends InputFieldMap, Payload> {
  readonly description?: string;
  readonly type: ObjectRef<Types, Payload>;
  readonly args: (t: ArgBuilder<Types>) => Args;
  /**
   * Returns the filter for the events to follow. Throws when the caller may not follow them. Called again later to
   * re-check access.
   */
  readonly open: (ctx: Context, args: InputShapeFromFields<Args>) => LiveFilter | Promise<LiveFilter>;
  /**
   * Returns the payload for an event, or null to send nothing. Runs once for all subscribers that share it (see
   * live.ts).
   */
  readonly resolve: (event: EventRow, args: InputShapeFromFields<Args>, ctx: Context) => Promise<Payload | null>;
}

/** A declared subscription, as live.ts runs it. */
export interface LiveField {
  open(ctx: Context, args: Readonly<Record<string, unknown>>): LiveFilter | Promise<LiveFilter>;
  resolve(event: EventRow, args: Readonly<Record<string, unknown>>, ctx: Context): Promise<unknown>;
}

const fields = new Map<string, LiveField>();

export const findLiveField = (name: string): LiveField | null => fields.get(name) ?? null;

/**
 * Declares a subscription fed by the event log. The argument `after` (a cursor from an earlier payload) is added. The
 * payload type has `cursor: String!`. Most types spread `updateFields(t)`, and their payloads `updateOf(event)`. Results
 * of a type without that field, such as a pipeline, have the cursor in their extensions.
 *
 *     subscriptionField('projectExportUpdated', {
 *       type: ProjectExportUpdate,
 *       args: (t) => ({ fullPath: t.id({ required: true }) }),
 *       open: async (ctx, { fullPath }) =>
 *         ({ kinds: EXPORT_KINDS, project_id: (await getProject(ctx, { path: fullPath })).id }),
 *       resolve: async (event, _args, ctx) =>
 *         ({ ...updateOf(event), ...(await exportState(ctx, event.project_id)) }),
 *     })
 *
 * Types declare `extensions: { viewerIndependent: true }` if their fields are the same for everyone who may see the
 * event. If all selected types do, one execution serves every subscriber.
 */
export function subscriptionField<Args extends InputFieldMap, Payload>(
  name: string,
  options: SubscriptionOptions<Args, Payload>,
): void;
// The implementation only passes arguments and payload through, so it needs no precise types.
export function subscriptionField(name: string, options: SubscriptionOptions<InputFieldMap, unknown>): void {
  fields.set(name, { open: options.open, resolve: options.resolve });
  builder.subscriptionField(name, (t) =>
    t.field({
      ...(options.description === undefined ? {} : { description: options.description }),
      type: options.type,
      nullable: true,
      args: {
        ...options.args(t.arg),
        after: t.arg.string({
          description:
            'The cursor of the last payload received, or `extensions.cursor` of its result. Later events are sent first.',
        }),
      },
      subscribe: () => {
        throw new Error('subscriptions are run by live.ts');
      },
      // The root value is the result of `options.resolve`.
      resolve: (payload) => payload,
    }),
  );
}

/** The part that the payloads of subscriptions share. */
export interface Update {
  readonly cursor: string;
  /** When the event happened. */
  readonly at: string;
}

/** Returns the shared part of a payload for the event. */
export const updateOf = (event: EventRow): Update => ({ cursor: eventCursor(event), at: event.created_at });

/** Returns the fields of the shared part, for the type of a payload. */
export const updateFields = <Payload extends Update>(t: PothosSchemaTypes.ObjectFieldBuilder<Types, Payload>) => ({
  cursor: t.string({
    nullable: false,
    description: 'Pass it as `after` to continue after this update.',
    resolve: ({ cursor }) => cursor,
  }),
  at: t.field({ type: 'Time', nullable: false, resolve: ({ at }) => at }),
});

/** Returns the cursor of `event`, for clients to resume after it. */
export const eventCursor = (event: EventRow): string => encodeCursor([event.position]);

/**
 * Returns the event position in a cursor.
 * @throws DomainError `bad_request` when the text is not an event cursor
 */
export const positionOf = (cursor: string): number => Number(decodeCursor(cursor, ['number'])[0]);
