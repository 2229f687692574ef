import { sql } from 'kysely';
import { removeAvatar, storeAvatar } from '#domains/users/avatar.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context, Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { badRequest, invalid, notFound, requireUnchanged, requireValid, tooLong } from '#platform/errors.ts';
import type { SentFile } from '#platform/files/picture.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { carryOutFew, lockTopics, moveFrom, takeName } from './moves.ts';
import { getTopic, type TopicRow } from './queries.ts';

export interface NewTopic {
  readonly name: string;
  /** Defaults to the name. */
  readonly title?: string | undefined;
  readonly description?: string | null | undefined;
  /** Null removes the avatar. */
  readonly avatar?: SentFile | null | undefined;
}

export type TopicChanges = { readonly [K in keyof NewTopic]?: NewTopic[K] | undefined };

const MAX_LENGTH = 255;
const MAX_DESCRIPTION = 1_024;

/**
 * Creates a topic that is visible even if no project has it. All commands here are for administrators only.
 *
 * @throws DomainError `forbidden`, `invalid`, also if the name exists in any case
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
    await takeName(tx, id, name);
    return getTopic(tx, id);
  });
};

/**
 * Changes a topic. A new name applies to all projects that have the topic. Many projects are updated in the background,
 * and are found by both names until then.
 *
 * @throws DomainError `forbidden`, `not_found`, `invalid`
 */
export const updateTopic = async (ctx: Context, id: number, input: TopicChanges): Promise<TopicRow> => {
  requireAdministrator(ctx);
  await getTopic(ctx, id);
  const values = readTopic(input);
  const avatar_key = input.avatar ? await storeAvatar(ctx, input.avatar) : input.avatar;
  await ctx.transaction(async (tx) => {
    const before = await lockTopic(tx, id);
    const { name = before.name } = values;
    await tx.db
      .updateTable('topics')
      .set({
        ...values,
        ...(avatar_key === undefined ? {} : { avatar_key }),
        curated: true,
        updated_at: sql`now()`,
      })
      .where('id', '=', id)
      .execute()
      .catch(asTaken);
    if (name !== before.name) {
      await takeName(tx, id, name);
      await moveFrom(tx, before.name, id);
    }
    if (avatar_key !== undefined) removeAvatar(tx, before.avatar_key);
  });
  await carryOutFew(ctx);
  return getTopic(ctx, id);
};

/**
 * Deletes a topic and removes it from all projects, in the background if there are many. @throws DomainError
 * `forbidden`, `not_found`, `modified`
 */
export const deleteTopic = async (ctx: Context, id: number, unchangedSince: Date | null = null): Promise<void> => {
  requireAdministrator(ctx);
  await ctx.transaction(async (tx) => {
    const topic = await lockTopic(tx, id);
    requireUnchanged(topic, unchangedSince);
    await moveFrom(tx, topic.name, null);
    await tx.db.deleteFrom('topics').where('id', '=', id).execute();
    removeAvatar(tx, topic.avatar_key);
  });
  await carryOutFew(ctx);
};

/**
 * Replaces the source topic by the target in all projects, in the background if there are many, and deletes the source.
 *
 * @throws DomainError `forbidden`, `not_found`, `bad_request` if both are the same
 */
export const mergeTopics = async (ctx: Context, sourceId: number, targetId: number): Promise<TopicRow> => {
  requireAdministrator(ctx);
  if (sourceId === targetId) throw badRequest('The source topic and the target topic are identical.');
  await ctx.transaction(async (tx) => {
    const source = await lockTopic(tx, sourceId);
    await lockTopic(tx, targetId);
    await addCounts(tx, sourceId, targetId);
    await tx.db.updateTable('topic_moves').set({ topic_id: targetId }).where('topic_id', '=', sourceId).execute();
    await moveFrom(tx, source.name, targetId);
    await tx.db.deleteFrom('topics').where('id', '=', sourceId).execute();
    removeAvatar(tx, source.avatar_key);
  });
  await carryOutFew(ctx);
  return getTopic(ctx, targetId);
};

const lockTopic = async (tx: Tx, id: number) => {
  await lockTopics(tx);
  const topic = await tx.db
    .selectFrom('topics')
    .select(['id', 'name', 'avatar_key', 'updated_at'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  if (!topic) throw notFound('Topic');
  return topic;
};

/** Adds the counts. Projects that have both topics count once. */
const addCounts = async (tx: Tx, sourceId: number, targetId: number): Promise<void> => {
  const names = (id: number) => sql`array(
    select name from topics where id = ${id} union all select former_name from topic_moves where topic_id = ${id})`;
  await sql`
    update topics t set public_count = t.public_count + s.public_count - both_.open,
      internal_count = t.internal_count + s.internal_count - both_.internal,
      private_count = t.private_count + s.private_count - both_.closed
    from topics s, (
      select count(*) filter (where visibility_level = 20) as open, count(*) filter (where visibility_level = 10) as internal,
        count(*) filter (where visibility_level = 0) as closed
      from projects where topics && ${names(sourceId)} and topics && ${names(targetId)}) as both_
    where t.id = ${targetId} and s.id = ${sourceId}`.execute(tx.db);
};

const readTopic = (input: TopicChanges) => {
  const problems: Record<string, string[]> = {};
  const line = (field: 'name' | 'title', given: string | undefined): string | undefined => {
    const value = given?.trim();
    if (value === '') problems[field] = ["can't be blank"];
    else if (value !== undefined && isLongerThan(value, MAX_LENGTH)) problems[field] = [tooLong(MAX_LENGTH)];
    else if (value !== undefined && /[\r\n]/.test(value)) problems[field] = ['must not contain line breaks'];
    // A comma separates topics in text inputs.
    else if (field === 'name' && value?.includes(',')) problems[field] = ['must not contain a comma'];
    return value;
  };
  const name = line('name', input.name);
  const title = line('title', input.title);
  const { description } = input;
  if (description && isLongerThan(description, MAX_DESCRIPTION)) {
    problems.description = [tooLong(MAX_DESCRIPTION)];
  }
  requireValid(problems);
  return {
    ...(name === undefined ? {} : { name }),
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
  };
};

const asTaken = (error: unknown): never => {
  if (brokenConstraint(error) === 'topics_name') throw invalid({ name: ['has already been taken'] });
  throw error;
};
