import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { z } from 'zod';
import { can } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import type { Context } from '#platform/context.ts';
import { unauthenticated } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { authorisePipeline, createPipeline, isRefusal, type NewPipeline } from '../create.ts';
import { openGivenValue, sealGivenValue } from '../sealed-values.ts';

export const REQUEST_STATUSES = ['in_progress', 'succeeded', 'failed'] as const;

/** A request for a pipeline that is created in the background, and its outcome. */
export interface CreationRequest {
  readonly id: string;
  readonly status: (typeof REQUEST_STATUSES)[number];
  /** Why there is no pipeline. */
  readonly error: string | null;
  /** Null while the request is in progress, and after the pipeline was deleted. */
  readonly pipeline_id: number | null;
}

/** The input of the caller. It is sealed, because values of variables may be secret. */
const requestInput = z.object({
  ref: z.string(),
  variables: z.array(
    z.object({ key: z.string(), value: z.string(), variable_type: z.enum(['env_var', 'file']).optional() }),
  ),
  inputs: z.record(z.string(), z.unknown()),
});

/**
 * Has a pipeline created in the background, for a caller who does not wait for its CI file to be read. Returns the id by
 * which the caller can follow it. Each call creates a pipeline of its own.
 *
 * @throws DomainError `invalid` if the caller may not run pipelines on the ref, or it does not exist; as `requireAbility`
 */
export const requestPipeline = async (
  ctx: Context,
  project: ProjectRow,
  input: z.infer<typeof requestInput>,
): Promise<string> => {
  await authorisePipeline(ctx, project, wantedOf(input));
  const { userId: user_id } = ctx.actor;
  if (user_id === null) throw unauthenticated();
  const id = randomUUID();
  await ctx.transaction(async (tx) => {
    await tx.db
      .insertInto('pipeline_creation_requests')
      .values({ id, project_id: project.id, user_id, sealed_input: sealGivenValue(tx, JSON.stringify(input)) })
      .execute();
    tx.enqueue(createRequestedPipeline, { id });
  });
  return id;
};

const wantedOf = (input: z.infer<typeof requestInput>): NewPipeline => ({ ...input, source: 'web' });

/** Returns a request of the last day, or null. Only callers who may create pipelines in the project see it. */
export const findCreationRequest = async (
  ctx: Context,
  project: ProjectRow,
  id: string,
): Promise<CreationRequest | null> => {
  if (!can(ctx, project, 'create_pipeline') || !can(ctx, project, 'read_pipeline')) return null;
  if (!z.uuid().safeParse(id).success) return null;
  const row = await ctx.db
    .selectFrom('pipeline_creation_requests')
    .select(['id', 'status', 'error', 'pipeline_id'])
    .where('id', '=', id)
    .where('project_id', '=', project.id)
    .executeTakeFirst();
  const status = REQUEST_STATUSES.find((each) => each === row?.status);
  return row && status ? { ...row, status } : null;
};

/**
 * The job `ci.create_requested_pipeline`: creates the pipeline as the user who asked for it, once, and stores the outcome
 * of the request.
 */
export const createRequestedPipeline = defineJob({
  name: 'ci.create_requested_pipeline',
  input: z.object({ id: z.string() }),
  maxAttempts: 8,
  run: async (hub, { id }, { lastAttempt }) => {
    const request = await hub.db
      .selectFrom('pipeline_creation_requests')
      .select(['project_id', 'user_id', 'sealed_input'])
      .where('id', '=', id)
      .where('status', '=', 'in_progress')
      .executeTakeFirst();
    if (!request?.sealed_input) return;
    const { project_id, user_id, sealed_input } = request;
    try {
      const ctx = await contextFor(hub, user_id, project_id);
      const project = ctx && (await findProject(ctx, { id: project_id }));
      if (!project || !can(ctx, project, 'create_pipeline')) {
        return await settle(hub, id, { error: 'Insufficient permissions to create a new pipeline' });
      }
      const input = requestInput.parse(JSON.parse(openGivenValue(hub, sealed_input)));
      const pipeline = await createPipeline(ctx, project, { ...wantedOf(input), key: `request:${id}` });
      await settle(hub, id, { pipeline_id: pipeline.id });
    } catch (error) {
      if (isRefusal(error)) return await settle(hub, id, { error: error.message });
      if (lastAttempt) await settle(hub, id, { error: 'The pipeline could not be created. Try again later.' });
      throw error;
    }
  },
});

const settle = async (
  { db }: Context,
  id: string,
  outcome: { readonly pipeline_id: number } | { readonly error: string },
): Promise<void> => {
  await db
    .updateTable('pipeline_creation_requests')
    .set({ ...outcome, status: 'error' in outcome ? 'failed' : 'succeeded', sealed_input: null })
    .where('id', '=', id)
    .where('status', '=', 'in_progress')
    .execute();
};

/** The job `ci.forget_creation_requests`: deletes requests of the day before and older. */
export const forgetCreationRequests = defineJob({
  name: 'ci.forget_creation_requests',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '27 * * * *',
  run: async ({ db }) => {
    await db
      .deleteFrom('pipeline_creation_requests')
      .where('created_at', '<', sql<string>`now() - interval '1 day'`)
      .execute();
  },
});
