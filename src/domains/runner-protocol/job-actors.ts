import { actorFor } from '#domains/tokens/authentication.ts';
import type { Actor, Services } from '#platform/context.ts';

export interface JobOfUser {
  readonly id: number;
  readonly project_id: number;
  readonly user_id: number | null;
}

/** Says whose actors a transaction needs. It is rolled back, and runs again when they are known. */
export class UnknownActors extends Error {
  readonly jobs: readonly JobOfUser[];
  constructor(jobs: readonly JobOfUser[]) {
    super('the users of these jobs must be looked up outside of the transaction');
    this.jobs = jobs;
  }
}

/**
 * The users of jobs as the tokens of these jobs act. Looking one up may ask an external authorization service, which must
 * not happen while a transaction holds locks and a connection.
 */
export class JobActors {
  readonly #known = new Map<string, Actor | null>();

  /** Returns the actor of each job, or null if its user is gone or blocked. @throws UnknownActors */
  of(jobs: readonly JobOfUser[]): readonly (Actor | null)[] {
    const unknown = jobs.filter((job) => !this.#known.has(keyOf(job)));
    if (unknown.length > 0) throw new UnknownActors(unknown);
    return jobs.map((job) => this.#known.get(keyOf(job)) ?? null);
  }

  /** Looks up the actors of these jobs. Must be called outside of a transaction. */
  async learn(services: Services, jobs: readonly JobOfUser[]): Promise<void> {
    const distinct = [...new Map(jobs.map((job) => [keyOf(job), job])).entries()];
    await Promise.all(
      distinct.map(async ([key, { id, user_id, project_id: projectId }]) => {
        const actor = user_id === null ? null : await actorFor(services, user_id, { job: { id, projectId } });
        this.#known.set(key, actor);
      }),
    );
  }
}

const keyOf = ({ user_id, project_id }: JobOfUser): string => `${user_id} ${project_id}`;
