import { sql } from 'kysely';
import { removeAvatar, storeAvatar } from '#domains/users/avatar.ts';
import { requireAdministrator } from '#domains/users/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, invalid, notFound } from '#platform/errors.ts';
import type { SentFile } from '#platform/picture.ts';
import { getTopic, type TopicRow } from './queries.ts';

export interface NewTopic {
  readonly name: string;
  /** The name when absent. */
  readonly title?: string | undefined;
  readonly description?: string | null | undefined;
  /** Null takes it away. */
  readonly avatar?: SentFile | null | undefined;
}

export type TopicChanges = { readonly [K in keyof NewTopic]?: NewTopic[K] | undefined };

const MAX_LENGTH = 255;
const MAX_DESCRIPTION = 1_024;

/**
 * Makes a topic that is shown whether projects carry it or not. Administrators only, as all here.
 *
 * @throws DomainError `forbidden`, `invalid`, also where there is one of that name, in whatever case
 */
export const createTopic = async (ctx: Context, input: NewTopic): Promise<TopicRow> => {
  requireAdministrator(ctx);
  const values = readTopic(input);
  const avatar_key = input.avatar ? await storeAvatar(ctx, input.avatar) : null;
  return ctx.transaction(async (tx) => {
    const { name = '', title = name, description = null } = values;
    const { id } = await tx.db
      .insertInto('topics')
      .values({ name, title, description, avatar_key, curated: true })
      .returning('id')
      .executeTakeFirstOrThrow()
      .catch(asTaken);
    return getTopic(tx, id);
  });
};

/** Changes a topic. Another name goes to all projects that carry it. @throws DomainError `forbidden`, `not_found`, `invalid` */
export const updateTopic = async (ctx: Context, id: number, input: TopicChanges): Promise<TopicRow> => {
  requireAdministrator(ctx);
  await getTopic(ctx, id);
  const values = readTopic(input);
  const avatar_key = input.avatar ? await storeAvatar(ctx, input.avatar) : input.avatar;
  await ctx.transaction(async (tx) => {
    const before = await lockTopic(tx, id);
    const { name = before.name } = values;
    const isOther = name.toLowerCase() !== before.name.toLowerCase();
    await tx.db
      .updateTable('topics')
      .set({
        ...values,
        ...(avatar_key === undefined ? {} : { avatar_key }),
        // The projects are counted anew as they get the other name.
        ...(isOther ? { public_count: 0, internal_count: 0, private_count: 0 } : {}),
        curated: true,
        updated_at: sql`now()`,
      })
      .where('id', '=', id)
      .execute()
      .catch(asTaken);
    if (name !== before.name) await replaceInProjects(tx, before.name, name);
    if (avatar_key !== undefined) removeAvatar(tx, before.avatar_key);
  });
  // Projects are counted as the transaction commits.
  return getTopic(ctx, id);
};

/** Deletes a topic, and takes it from all projects. @throws DomainError `forbidden`, `not_found` */
export const deleteTopic = async (ctx: Context, id: number): Promise<void> => {
  requireAdministrator(ctx);
  await ctx.transaction(async (tx) => {
    const topic = await lockTopic(tx, id);
    await replaceInProjects(tx, topic.name, null);
    await tx.db.deleteFrom('topics').where('id', '=', id).execute();
    removeAvatar(tx, topic.avatar_key);
  });
};

/**
 * Gives all projects of the one topic the other, and deletes the first.
 *
 * @throws DomainError `forbidden`, `not_found`, `bad_request` for one and the same
 */
export const mergeTopics = async (ctx: Context, sourceId: number, targetId: number): Promise<TopicRow> => {
  requireAdministrator(ctx);
  if (sourceId === targetId) throw badRequest('The source topic and the target topic are identical.');
  await ctx.transaction(async (tx) => {
    // By their ids, as those do who use several.
    const locked = new Map<number, LockedTopic>();
    for (const id of [sourceId, targetId].sort((a, b) => a - b)) locked.set(id, await lockTopic(tx, id));
    const [source, target] = [locked.get(sourceId), locked.get(targetId)];
    if (!source || !target) throw notFound('Topic');
    await replaceInProjects(tx, source.name, target.name);
    await tx.db.deleteFrom('topics').where('id', '=', sourceId).execute();
    removeAvatar(tx, source.avatar_key);
  });
  return getTopic(ctx, targetId);
};

type LockedTopic = Awaited<ReturnType<typeof lockTopic>>;

/** Waits for those who are just giving it to projects, and makes others wait (migration 0022). */
const lockTopic = async (tx: Tx, id: number) => {
  const topic = await tx.db
    .selectFrom('topics')
    .select(['id', 'name', 'avatar_key'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  if (!topic) throw notFound('Topic');
  return topic;
};

/** Their records change, so `updated_at` does. Rows are locked by id, as other writers of many projects do. */
const replaceInProjects = async (tx: Tx, from: string, to: string | null): Promise<void> => {
  await sql`
    with carrying as (
      select id from projects where topics @> array[${from}::text] order by id for no key update
    )
    update projects set updated_at = now(),
      topics = ${to === null ? sql`array_remove(topics, ${from}::text)` : sql`array_replace(topics, ${from}::text, ${to}::text)`}
    from carrying where projects.id = carrying.id`.execute(tx.db);
};

const readTopic = (input: TopicChanges) => {
  const problems: Record<string, string[]> = {};
  const line = (field: 'name' | 'title', given: string | undefined): string | undefined => {
    const value = given?.trim();
    if (value === '') problems[field] = ["can't be blank"];
    else if (value !== undefined && value.length > MAX_LENGTH)
      problems[field] = [`is too long (maximum is ${MAX_LENGTH} characters)`];
    else if (value !== undefined && /[\r\n]/.test(value)) problems[field] = ['must not contain line breaks'];
    // A comma separates topics wherever they are named in a text.
    else if (field === 'name' && value?.includes(',')) problems[field] = ['must not contain a comma'];
    return value;
  };
  const name = line('name', input.name);
  const title = line('title', input.title);
  const { description } = input;
  if (description && description.length > MAX_DESCRIPTION) {
    problems.description = [`is too long (maximum is ${MAX_DESCRIPTION} characters)`];
  }
  if (Object.keys(problems).length > 0) throw invalid(problems);
  return {
    ...(name === undefined ? {} : { name }),
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
  };
};

const asTaken = (error: unknown): never => {
  if (error instanceof Error && 'constraint' in error && error.constraint === 'topics_name') {
    throw invalid({ name: ['has already been taken'] });
  }
  throw error;
};
