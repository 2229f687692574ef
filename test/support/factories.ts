import { type Insertable, sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import type { Users } from '#platform/db/tables.ts';
import type { TestUser } from './app.ts';
import type { Client } from './client.ts';

interface FactoryOptions {
  readonly db: Database;
  readonly context: (user?: TestUser) => Context;
  readonly root: TestUser;
  /** Returns a client for the user, since groups and projects are created over REST. */
  readonly as: (user: TestUser) => Client;
}

export interface TestGroup {
  readonly id: number;
  readonly path: string;
  readonly full_path: string;
}

export interface TestProject {
  readonly id: number;
  readonly path: string;
  readonly path_with_namespace: string;
  readonly default_branch: string | null;
}

type Attributes = Readonly<Record<string, unknown>>;

let count = 0;
const next = (): number => ++count;

/** Creates test data. Names are unique in the process, and missing attributes get default values. */
export class Factories {
  readonly #options: FactoryOptions;

  constructor(options: FactoryOptions) {
    this.#options = options;
  }

  /** Creates a user with a personal namespace, directly in the database because hashing each password is expensive. */
  async user(attributes: Partial<Insertable<Users>> = {}): Promise<TestUser> {
    const username = attributes.username ?? `user${next()}`;
    return this.#options.context().transaction(async ({ db }) => {
      const user = await db
        .insertInto('users')
        .values({
          name: `Name of ${username}`,
          email: `${username}@example.com`,
          confirmed_at: sql`now()`,
          ...attributes,
          username,
        })
        .returning(['id', 'username'])
        .executeTakeFirstOrThrow();
      const { id } = await db
        .insertInto('namespaces')
        .values({
          kind: 'user',
          owner_id: user.id,
          name: username,
          path: username,
          full_path: username,
          full_name: username,
          visibility_level: 20,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      await db
        .updateTable('namespaces')
        .set({ traversal_ids: [id] })
        .where('id', '=', id)
        .execute();
      await sql`select refresh_namespace_access(${[id]}::bigint[], null)`.execute(db);
      return user;
    });
  }

  /** Creates a group owned by `owner` (a new user if none is given). */
  async group(attributes: Attributes = {}, owner?: TestUser): Promise<TestGroup> {
    const path = `group${next()}`;
    const client = this.#options.as(owner ?? this.#options.root);
    return created(await client.post('/groups', { name: path, path, ...attributes }));
  }

  /** Creates a project in `namespace_id`, or in the personal namespace of `owner`. */
  async project(attributes: Attributes = {}, owner?: TestUser): Promise<TestProject> {
    const path = `project${next()}`;
    const client = this.#options.as(owner ?? this.#options.root);
    return created(await client.post('/projects', { name: path, path, ...attributes }));
  }

  /** Makes the user a member of the group with the role. */
  async groupMember(
    group: { readonly id: number },
    user: TestUser,
    access_level: number,
    expires_at?: string,
  ): Promise<void> {
    await this.#options.context().transaction(async ({ db }) => {
      await db
        .insertInto('members')
        .values({ namespace_id: group.id, user_id: user.id, access_level, expires_at: expires_at ?? null })
        .execute();
      await sql`select refresh_namespace_access(${[group.id]}::bigint[], ${[user.id]}::bigint[])`.execute(db);
    });
  }

  /** Makes the user a member of the project with the role. */
  async projectMember(
    project: { readonly id: number },
    user: TestUser,
    access_level: number,
    expires_at?: string,
  ): Promise<void> {
    await this.#options.db
      .insertInto('members')
      .values({ project_id: project.id, user_id: user.id, access_level, expires_at: expires_at ?? null })
      .execute();
  }
}

// biome-ignore lint/suspicious/noExplicitAny: the answer's shape is the record's, which the hub checks in tests.
const created = (answer: { readonly status: number; readonly body: any }): any => {
  if (answer.status !== 201) throw new Error(`not created: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
};
