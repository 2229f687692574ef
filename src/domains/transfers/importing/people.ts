import { sql } from 'kysely';
import { MAINTAINER, ROLES } from '#domains/access/model.ts';
import type { Context } from '#platform/context.ts';
import { isObject } from '#platform/values/json.ts';
import type { Json, People } from '../relations/columns.ts';

export interface Importer {
  readonly id: number;
  readonly name: string;
}

/**
 * Maps the user ids of the archive to users here (reference: export-archive §5). Only an administrator's import
 * considers member lines, and matches them only by confirmed e-mail address. Otherwise an archive could speak for other
 * people.
 */
export class ImportPeople implements People {
  readonly importer: Importer;
  /** Whether member lines count. Only true if an administrator imports. */
  readonly considersMembers: boolean;
  readonly #known: ReadonlyMap<number, number>;

  constructor(importer: Importer, considersMembers: boolean, known: ReadonlyMap<number, number>) {
    this.importer = importer;
    this.considersMembers = considersMembers;
    this.#known = known;
  }

  known(sourceId: unknown): number | null {
    return typeof sourceId === 'number' ? (this.#known.get(sourceId) ?? null) : null;
  }

  author(sourceId: unknown): number {
    return this.known(sourceId) ?? this.importer.id;
  }

  /** Returns a line that credits the original author if another user stands in for them, else an empty text. */
  credit(line: Json, writtenAt: unknown): string {
    if (this.known(line.author_id) !== null) return '';
    const name = isObject(line.author) && typeof line.author.name === 'string' ? line.author.name.trim() : '';
    if (name === '' || name === this.importer.name) return '';
    const on = typeof writtenAt === 'string' ? ` on ${writtenAt}` : '';
    return `*By ${escapeMarkdown(name.slice(0, 255))}${on} (imported)*\n\n`;
  }
}

const escapeMarkdown = (name: string): string =>
  name.replace(/[\\`*_{}[\]()#+\-.!|<>~@\r\n]/g, (c) => (c < ' ' ? ' ' : `\\${c}`));

/** Adds to `known` the users here who match the member lines. */
export const findPeople = async (ctx: Context, lines: readonly Json[], known: Map<number, number>): Promise<void> => {
  const byEmail = new Map<string, number[]>();
  for (const { user } of lines) {
    if (!isObject(user) || typeof user.id !== 'number') continue;
    const email = [user.public_email, user.email].find((each) => typeof each === 'string' && each !== '');
    if (typeof email === 'string')
      byEmail.set(email.toLowerCase(), [...(byEmail.get(email.toLowerCase()) ?? []), user.id]);
  }
  if (byEmail.size === 0) return;
  const { rows } = await sql<{ id: number; email: string }>`
    select id, lower(email) as email from users
    where lower(email) = any (${[...byEmail.keys()]}::text[]) and confirmed_at is not null and user_type = 'human'
      and state = 'active'`.execute(ctx.db);
  for (const { id, email } of rows) for (const sourceId of byEmail.get(email) ?? []) known.set(sourceId, id);
};

/** Returns the role of an imported member, at most Maintainer. Null for an unknown role. */
export const importedLevel = (level: unknown): number | null =>
  typeof level === 'number' && ROLES.some((role) => role === level) ? Math.min(level, MAINTAINER) : null;
