import { builder } from '#graphql/builder.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import type { StoredEvent } from '../digest/payload.ts';
import {
  type EventRowOfError,
  eventKey,
  payloadsByEvents,
  type ReportRow,
  reportsByEvents,
} from '../errors/stored-events.ts';
import type {
  NormalizedBreadcrumb,
  NormalizedException,
  NormalizedFrame,
  NormalizedRequest,
  NormalizedUser,
} from '../event.ts';

const loadPayload = loader(payloadsByEvents);
const loadReport = loader(reportsByEvents);

// Everything below shows what an application sent. Everyone who may read the error may read all of it.
const extensions = { viewerIndependent: true } as const;

const SourceLine = builder.objectRef<{ readonly line: number | null; readonly code: string }>(
  'ErrorTrackingSourceLine',
);
SourceLine.implement({
  extensions,
  fields: (t) => ({ line: t.exposeInt('line'), code: t.exposeString('code', { nullable: false }) }),
});

/** Returns the source lines around a frame with their numbers, as far as the SDK sent them. */
export const sourceOf = ({ pre_context, context_line, post_context, lineno }: NormalizedFrame) => {
  if (context_line === null) return [];
  const lines = [...pre_context, context_line, ...post_context];
  const first = lineno === null ? null : lineno - pre_context.length;
  return lines.map((code, index) => ({ line: first === null ? null : first + index, code }));
};

const Frame = builder.objectRef<NormalizedFrame>('ErrorTrackingFrame').implement({
  description: 'A frame of a stack trace.',
  extensions,
  fields: (t) => ({
    function: t.exposeString('function'),
    module: t.exposeString('module'),
    package: t.exposeString('package'),
    filename: t.exposeString('filename'),
    absPath: t.exposeString('abs_path'),
    lineNumber: t.exposeInt('lineno'),
    columnNumber: t.exposeInt('colno'),
    inApp: t.exposeBoolean('in_app', { description: "Whether it is the application's own code. Null if unknown." }),
    source: t.field({
      type: [SourceLine],
      nullable: { list: false, items: false },
      description: 'The lines around the place. Empty if the SDK did not send them.',
      resolve: sourceOf,
    }),
    vars: t.field({ type: 'JSON', description: 'The local variables.', resolve: ({ vars }) => vars }),
  }),
});

const Exception = builder.objectRef<NormalizedException>('ErrorTrackingException').implement({
  extensions,
  fields: (t) => ({
    type: t.exposeString('type'),
    value: t.exposeString('value'),
    module: t.exposeString('module'),
    mechanism: t.string({
      description: 'How the SDK caught it, such as `onerror`.',
      resolve: ({ mechanism }) => mechanism?.type ?? null,
    }),
    handled: t.boolean({
      description: 'Whether the application caught it itself.',
      resolve: ({ mechanism }) => mechanism?.handled ?? null,
    }),
    frames: t.field({
      type: [Frame],
      nullable: { list: false, items: false },
      description: 'The caller first, the crash last.',
      resolve: ({ frames }) => [...frames],
    }),
  }),
});

const Breadcrumb = builder.objectRef<NormalizedBreadcrumb>('ErrorTrackingBreadcrumb').implement({
  description: 'Something that happened before the error.',
  extensions,
  fields: (t) => ({
    timestamp: t.expose('timestamp', { type: 'Time' }),
    type: t.exposeString('type'),
    category: t.exposeString('category'),
    level: t.exposeString('level'),
    message: t.exposeString('message'),
    data: t.field({ type: 'JSON', resolve: ({ data }) => data }),
  }),
});

const Request = builder.objectRef<NormalizedRequest>('ErrorTrackingRequest').implement({
  description: 'The HTTP request that the application was answering.',
  extensions,
  fields: (t) => ({
    url: t.exposeString('url'),
    method: t.exposeString('method'),
    queryString: t.exposeString('query_string'),
    headers: t.field({ type: 'JSON', resolve: ({ headers }) => headers }),
    cookies: t.field({ type: 'JSON', resolve: ({ cookies }) => cookies }),
    env: t.field({ type: 'JSON', resolve: ({ env }) => env }),
    data: t.field({ type: 'JSON', resolve: ({ data }) => data }),
  }),
});

const AffectedUser = builder.objectRef<NormalizedUser>('ErrorTrackingUser').implement({
  description: 'The user of the application who saw the error.',
  extensions,
  fields: (t) => ({
    id: t.exposeString('id'),
    username: t.exposeString('username'),
    email: t.exposeString('email'),
    ipAddress: t.exposeString('ip_address'),
    data: t.field({ type: 'JSON', resolve: ({ data }) => data }),
  }),
});

const Report = builder.objectRef<ReportRow>('ErrorTrackingUserReport').implement({
  description: 'What a user of the application wrote about the error.',
  extensions,
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    email: t.exposeString('email', { nullable: false }),
    comments: t.exposeString('comments', { nullable: false }),
    receivedAt: t.expose('received_at', { type: 'Time', nullable: false }),
  }),
});

const Tag = builder.objectRef<readonly [key: string, value: string]>('ErrorTrackingTag').implement({
  extensions,
  fields: (t) => ({
    key: t.string({ nullable: false, resolve: ([key]) => key }),
    value: t.string({ nullable: false, resolve: ([, value]) => value }),
  }),
});

/** Reads the payload of the event. Null if the event was dropped meanwhile. */
export const payloadOf = (ctx: Context, event: EventRowOfError): Promise<StoredEvent | null> =>
  loadPayload(ctx, eventKey(event));

export const EventRef = builder.objectRef<EventRowOfError>('ErrorTrackingEvent').implement({
  description: 'One occurrence of an error, as the application reported it. Secrets in it were filtered.',
  extensions,
  fields: (t) => {
    const text = (read: (payload: StoredEvent) => string | null) =>
      t.string({
        resolve: async (event, _args, ctx) => {
          const payload = await payloadOf(ctx, event);
          return payload && read(payload);
        },
      });
    const json = (read: (payload: StoredEvent) => unknown) =>
      t.field({
        type: 'JSON',
        resolve: async (event, _args, ctx) => {
          const payload = await payloadOf(ctx, event);
          return payload && read(payload);
        },
      });
    return {
      eventId: t.exposeString('event_id', { nullable: false, description: '32 hexadecimal digits.' }),
      receivedAt: t.expose('received_at', { type: 'Time', nullable: false }),
      occurredAt: t.expose('occurred_at', { type: 'Time', nullable: false }),
      level: t.exposeString('level', { nullable: false }),
      environment: t.exposeString('environment'),
      release: t.exposeString('release'),
      tags: t.field({
        type: [Tag],
        nullable: { list: false, items: false },
        resolve: ({ tags }) => Object.entries(tags).sort(([left], [right]) => (left < right ? -1 : 1)),
      }),
      platform: text(({ platform }) => platform),
      message: text(({ message }) => message?.formatted ?? null),
      logger: text(({ logger }) => logger),
      transaction: text(({ transaction }) => transaction),
      serverName: text(({ server_name }) => server_name),
      dist: text(({ dist }) => dist),
      exceptions: t.field({
        type: [Exception],
        nullable: true,
        description: 'The chain of exceptions: oldest first, the last was thrown.',
        resolve: async (event, _args, ctx) => [...((await payloadOf(ctx, event))?.exceptions ?? [])],
      }),
      stack: t.field({
        type: [Frame],
        nullable: true,
        description: 'The stack of the event, if no exception has one.',
        resolve: async (event, _args, ctx) => [...((await payloadOf(ctx, event))?.stack ?? [])],
      }),
      breadcrumbs: t.field({
        type: [Breadcrumb],
        nullable: true,
        description: 'Oldest first.',
        resolve: async (event, _args, ctx) => [...((await payloadOf(ctx, event))?.breadcrumbs ?? [])],
      }),
      request: t.field({
        type: Request,
        nullable: true,
        resolve: async (event, _args, ctx) => (await payloadOf(ctx, event))?.request ?? null,
      }),
      user: t.field({
        type: AffectedUser,
        nullable: true,
        resolve: async (event, _args, ctx) => (await payloadOf(ctx, event))?.user ?? null,
      }),
      userReport: t.field({
        type: Report,
        nullable: true,
        resolve: (event, _args, ctx) => loadReport(ctx, eventKey(event)),
      }),
      extra: json(({ extra }) => extra),
      contexts: json(({ contexts }) => contexts),
      modules: json(({ modules }) => modules),
      sdk: json(({ sdk }) => sdk),
      payload: t.field({
        type: 'JSON',
        description: 'The whole event after normalisation.',
        resolve: (event, _args, ctx) => payloadOf(ctx, event),
      }),
    };
  },
});
export const EventConnection = builder.connectionObject(
  { type: EventRef, name: 'ErrorTrackingEventConnection' },
  { name: 'ErrorTrackingEventEdge' },
);
