import { z } from 'zod';
import type { NoteableKind } from '#domains/notes/noteable.ts';
import { getProject } from '#domains/projects/queries.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { type PageRequest, readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { only } from '#platform/values/only.ts';
import { idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { addAward, removeAward } from './commands.ts';
import { type Awardable, type AwardRow, awardableType, idOf, kindOf } from './model.ts';
import { getAward, getAwardable, listAwards } from './queries.ts';

const tag = 'Award emoji';

const awardRecord = z
  .object({
    id: z.int(),
    name: z.string(),
    user: userBasicRecord.nullable(),
    created_at: z.string(),
    updated_at: z.string(),
    awardable_id: z.int(),
    awardable_type: z.string(),
    url: z.null().describe('Always null, as custom emoji are not supported.'),
  })
  .meta({ id: 'AwardEmoji' });

const toAwards = async (
  ctx: Context,
  awardable: Awardable,
  rows: readonly AwardRow[],
): Promise<z.output<typeof awardRecord>[]> => {
  const users = await userBasicsByIds(
    ctx,
    rows.map((row) => row.user_id),
  );
  return rows.map(({ id, name, user_id, created_at, updated_at }) => {
    return {
      id,
      name,
      user: users.get(user_id) ?? null,
      created_at: isoTime(created_at),
      updated_at: isoTime(updated_at),
      awardable_id: idOf(awardable),
      awardable_type: awardableType(kindOf(awardable)),
      url: null,
    };
  });
};

const toAward = async (ctx: Context, awardable: Awardable, row: AwardRow): Promise<z.output<typeof awardRecord>> =>
  only(await toAwards(ctx, awardable, [row]));

const NAME = 'Letters, digits, `_`, `+` and `-`, such as `thumbsup`; clients decide which emoji exist.';
const place = { id: idOrPath(), noteable_iid: integer() };
const notePlace = { ...place, note_id: integer() };
const award = { award_id: integer() };
const name = { name: text({ max: 255 }) };

interface AwardablePath {
  readonly id: IdOrPath;
  readonly noteable_iid: number;
  readonly note_id?: number;
}

const list = async (ctx: Context, awardable: Awardable, wanted: PageRequest) => {
  const { items, ...rest } = await readPage(listAwards(ctx, awardable), wanted);
  return { ...rest, items: await toAwards(ctx, awardable, items) };
};

const add = async (ctx: Context, awardable: Awardable, given: string) => {
  try {
    return await toAward(ctx, awardable, await addAward(ctx, awardable, given));
  } catch (error) {
    // As upstream reports it.
    const isTwice = error instanceof DomainError && error.code === 'conflict';
    throw isTwice ? notFound('Award Emoji Name has already been taken') : error;
  }
};

const remove = async (ctx: Context, awardable: Awardable, id: number, since: Date | null): Promise<void> => {
  await removeAward(ctx, awardable, id, since);
};

/** The routes of issues and merge requests differ only in their place. Comment routes also have the comment's id. */
const routesOf = (kind: NoteableKind, path: 'issues' | 'merge_requests', what: string): Route[] => {
  const find = async (ctx: Context, { id, noteable_iid: iid, note_id }: AwardablePath): Promise<Awardable> =>
    getAwardable(ctx, await getProject(ctx, id), kind, { iid, noteId: note_id ?? null });
  const all = `/projects/:id/${path}/:noteable_iid/award_emoji` as const;
  const one = `${all}/:award_id` as const;
  const allOfNote = `/projects/:id/${path}/:noteable_iid/notes/:note_id/award_emoji` as const;
  const oneOfNote = `${allOfNote}/:award_id` as const;
  const lists = { tag, auth: 'optional', paging: 'offset', item: awardRecord } as const;
  const gets = { method: 'GET', tag, auth: 'optional', response: awardRecord } as const;
  const posts = { method: 'POST', tag, description: NAME, response: awardRecord } as const;
  const deletes = { method: 'DELETE', tag, refusals: MODIFIED, response: null } as const;
  return [
    listRoute({
      ...lists,
      path: all,
      summary: `List the emoji of ${what}`,
      input: place,
      run: async (ctx, at, page) => list(ctx, await find(ctx, at), page),
    }),
    listRoute({
      ...lists,
      path: allOfNote,
      summary: `List the emoji of a comment on ${what}`,
      input: notePlace,
      run: async (ctx, at, page) => list(ctx, await find(ctx, at), page),
    }),
    route({
      ...gets,
      path: one,
      summary: `Get an emoji of ${what}`,
      input: { ...place, ...award },
      run: async (ctx, { award_id, ...at }) => {
        const awardable = await find(ctx, at);
        return toAward(ctx, awardable, await getAward(ctx, awardable, award_id));
      },
    }),
    route({
      ...gets,
      path: oneOfNote,
      summary: `Get an emoji of a comment on ${what}`,
      input: { ...notePlace, ...award },
      run: async (ctx, { award_id, ...at }) => {
        const awardable = await find(ctx, at);
        return toAward(ctx, awardable, await getAward(ctx, awardable, award_id));
      },
    }),
    route({
      ...posts,
      path: all,
      summary: `Add an emoji to ${what}`,
      input: { ...place, ...name },
      run: async (ctx, { name: given, ...at }) => add(ctx, await find(ctx, at), given),
    }),
    route({
      ...posts,
      path: allOfNote,
      summary: `Add an emoji to a comment on ${what}`,
      input: { ...notePlace, ...name },
      run: async (ctx, { name: given, ...at }) => add(ctx, await find(ctx, at), given),
    }),
    route({
      ...deletes,
      path: one,
      summary: `Remove an emoji from ${what}`,
      input: { ...place, ...award },
      run: async (ctx, { award_id, ...at }, http) => remove(ctx, await find(ctx, at), award_id, unmodifiedSince(http)),
    }),
    route({
      ...deletes,
      path: oneOfNote,
      summary: `Remove an emoji from a comment on ${what}`,
      input: { ...notePlace, ...award },
      run: async (ctx, { award_id, ...at }, http) => remove(ctx, await find(ctx, at), award_id, unmodifiedSince(http)),
    }),
  ];
};

export const routes: readonly Route[] = [
  ...routesOf('issue', 'issues', 'an issue'),
  ...routesOf('merge_request', 'merge_requests', 'a merge request'),
];
