import type { Variable } from '#domains/ci-config/model.ts';
import { usersByIds } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';

/** The user who started a pipeline or a job. */
interface StartingUser {
  readonly id: number;
  readonly username: string;
  readonly name: string;
  readonly email: string;
}

/** Returns the variables that name the user. They beat those of the CI file, and nothing else (reference: ci §1). */
export const userVariables = (user: StartingUser | null): Variable[] =>
  user === null
    ? []
    : [
        { key: 'GITLAB_USER_ID', value: String(user.id), raw: true },
        { key: 'GITLAB_USER_EMAIL', value: user.email, raw: true },
        { key: 'GITLAB_USER_LOGIN', value: user.username, raw: true },
        { key: 'GITLAB_USER_NAME', value: user.name, raw: true },
      ];

/** The same by the id of the user. None if they were removed. */
export const readUserVariables = async (ctx: Pick<Context, 'db'>, id: number | null): Promise<Variable[]> =>
  id === null ? [] : userVariables((await usersByIds(ctx, [id])).get(id) ?? null);
