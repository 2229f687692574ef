import type { Context, Tx } from '#platform/context.ts';
import { FLAG_NAMES, PATTERN_NAMES, type PushRuleAttributes } from './model.ts';
import { problemsOf } from './patterns.ts';

/** Returns the project's own push rule as a line of an export archive, or null. */
export const pushRuleToArchive = async (
  { db }: Pick<Context, 'db'>,
  projectId: number,
): Promise<Record<string, unknown> | null> =>
  (await db
    .selectFrom('push_rules')
    .select([...FLAG_NAMES, ...PATTERN_NAMES, 'max_file_size'])
    .where('project_id', '=', projectId)
    .executeTakeFirst()) ?? null;

/**
 * Stores the push rule of an imported project, without an event. Returns null, or what is wrong with the line. Then
 * nothing is stored.
 */
export const importPushRule = async (
  tx: Tx,
  projectId: number,
  line: Readonly<Record<string, unknown>>,
): Promise<string | null> => {
  const found: { -readonly [K in keyof PushRuleAttributes]?: NonNullable<PushRuleAttributes[K]> } = {};
  for (const name of FLAG_NAMES) if (typeof line[name] === 'boolean') found[name] = line[name];
  for (const name of PATTERN_NAMES) {
    const value = line[name];
    if (typeof value === 'string') found[name] = value;
  }
  const { max_file_size: size } = line;
  if (typeof size === 'number' && Number.isInteger(size) && size >= 0 && size <= MAX_SIZE) found.max_file_size = size;
  const [problem] = Object.entries(problemsOf(found));
  if (problem) return `${problem[0]} ${problem[1].join(', ')}`;
  await tx.db
    .insertInto('push_rules')
    .values({ project_id: projectId, ...found })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  return null;
};

const MAX_SIZE = 2_147_483_647;
