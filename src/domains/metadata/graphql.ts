import { builder } from '#graphql/builder.ts';
import { getRevision, VERSION } from './version.ts';

const Kas = builder.objectRef<Record<never, never>>('Kas').implement({
  description: 'The agent server. This hub has none.',
  fields: (t) => ({
    enabled: t.boolean({ nullable: false, resolve: () => false }),
    externalUrl: t.string({ nullable: true, resolve: () => null }),
    version: t.string({ nullable: true, resolve: () => null }),
  }),
});

const FeatureFlag = builder.objectRef<{ readonly name: string }>('MetadataFeatureFlag').implement({
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    enabled: t.boolean({
      nullable: false,
      description: 'Always false: no feature is behind a flag.',
      resolve: () => false,
    }),
  }),
});

const Metadata = builder.objectRef<Record<never, never>>('Metadata').implement({
  fields: (t) => ({
    version: t.string({ nullable: false, resolve: () => VERSION }),
    revision: t.string({ nullable: false, resolve: () => getRevision() }),
    enterprise: t.boolean({ nullable: false, resolve: () => false }),
    kas: t.field({ type: Kas, nullable: false, resolve: () => ({}) }),
    featureFlags: t.field({
      type: [FeatureFlag],
      nullable: false,
      args: { names: t.arg.stringList({ required: true }) },
      resolve: (_metadata, { names }) => names.map((name) => ({ name })),
    }),
  }),
});

builder.queryField('metadata', (t) =>
  t.field({
    type: Metadata,
    nullable: true,
    // As in REST, anonymous callers do not get the version.
    resolve: (_root, _args, ctx) => (ctx.actor.userId === null ? null : {}),
  }),
);

builder.queryField('echo', (t) =>
  t.string({
    nullable: false,
    description: 'Repeats the text, with the name of the caller (`nil` if anonymous): a first request of a new client.',
    args: { text: t.arg.string({ required: true }) },
    resolve: (_root, { text }, { actor: { username } }) =>
      `${username === null ? 'nil' : JSON.stringify(username)} says: ${text}`,
  }),
);
