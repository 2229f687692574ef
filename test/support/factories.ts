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
  readonly name: string;
  readonly path: string;
  readonly path_with_namespace: string;
  readonly default_branch: string | null;
}

type Body = Readonly<Record<string, unknown>>;
type Attributes<Table> = Partial<Insertable<Table>>;

let count = 0;
const next = (): number => ++count;

/** Creates test data. Names are unique in the process, and missing attributes get default values. */
export class Factories {
  readonly #options: FactoryOptions;

  constructor(options: FactoryOptions) {
    this.#options = options;
  }

  async user(attributes: Attributes<Users> = {}): Promise<TestUser> {
    const [user] = await this.users([attributes]);
    if (!user) throw new Error('no user was created');
    return user;
  }

  /**
   * Creates users with personal namespaces, directly in the database because hashing each password is expensive.
   * Takes their number or their attributes.
   */
  async users(wanted: number | readonly Attributes<Users>[]): Promise<TestUser[]> {
    const named = (typeof wanted === 'number' ? Array.from({ length: wanted }, () => ({})) : wanted).map(
      (attributes: Attributes<Users>) => ({ ...attributes, username: attributes.username ?? `user${next()}` }),
    );
    return this.#options.context().transaction(async ({ db }) => {
      const users = await db
        .insertInto('users')
        .values(
          named.map((attributes) => ({
            name: `Name of ${attributes.username}`,
            email: `${attributes.username}@example.com`,
            confirmed_at: sql`now()`,
            ...attributes,
          })),
        )
        .returning(['id', 'username'])
        .execute();
      const namespaces = await db
        .insertInto('namespaces')
        .values(
          users.map(({ id, username }) => ({
            kind: 'user',
            owner_id: id,
            name: username,
            path: username,
            full_path: username,
            full_name: username,
            visibility_level: 20,
          })),
        )
        .returning('id')
        .execute();
      const ids = namespaces.map(({ id }) => id);
      await sql`update namespaces set traversal_ids = array[id] where id = any (${ids}::bigint[])`.execute(db);
      await sql`select refresh_namespace_access(${ids}::bigint[], null)`.execute(db);
      return users;
    });
  }

  /** Creates a group owned by `owner` (a new user if none is given). */
  async group(attributes: Body = {}, owner?: TestUser): Promise<TestGroup> {
    const path = `group${next()}`;
    const client = this.#options.as(owner ?? this.#options.root);
    return created(await client.post('/groups', { name: path, path, ...attributes }));
  }

  /** Creates a project in `namespace_id`, or in the personal namespace of `owner`. */
  async project(attributes: Body = {}, owner?: TestUser): Promise<TestProject> {
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
  projectMember(
    project: { readonly id: number },
    user: TestUser,
    access_level: number,
    expires_at: string | null = null,
  ): Promise<void> {
    return this.projectMembers(project, [[user, access_level]], expires_at);
  }

  /** Makes each user a member of the project with the role. */
  async projectMembers(
    project: { readonly id: number },
    members: readonly (readonly [user: TestUser, access_level: number])[],
    expires_at: string | null = null,
  ): Promise<void> {
    await this.#options.db
      .insertInto('members')
      .values(
        members.map(([{ id }, access_level]) => ({ project_id: project.id, user_id: id, access_level, expires_at })),
      )
      .execute();
  }
}

// biome-ignore lint/suspicious/noExplicitAny: the answer's shape is the record's, which the hub checks in tests.
const created = (answer: { readonly status: number; readonly body: any }): any => {
  if (answer.status !== 201) throw new Error(`not created: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
};
