import { sql } from 'kysely';
import { createPipeline } from '#domains/ci/create.ts';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { findProject, getProject } from '#domains/projects/queries.ts';
import { actorFor, authenticate } from '#domains/tokens/authentication.ts';
import { type Actor, type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { badParameters, DomainError, forbidden, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { digestToken } from '#platform/secrets.ts';

export interface Firing {
  /** The token of a trigger, or of a running job. */
  readonly token: string;
  readonly ref: string;
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  readonly inputs?: Readonly<Record<string, unknown>> | undefined;
  readonly inputs_are_texts?: boolean | undefined;
  /** The name of the webhook, if a webhook sent the request. */
  readonly hook?: string | undefined;
}

/**
 * Starts a pipeline with the token of a trigger, as its owner, or with the token of a running job, as the user of the
 * job. The caller needs no other credential.
 *
 * @throws DomainError `forbidden` for a webhook about pipelines, `not_found` for a wrong token or project, `parameters`,
 *   and as `createPipeline`
 */
export const fireTrigger = async (
  ctx: Context,
  id: IdOrPath,
  { token, ref, variables = {}, inputs, inputs_are_texts, hook }: Firing,
): Promise<PipelineRow> => {
  // A hook for pipelines that starts a pipeline would call itself for ever.
  if (hook === 'Pipeline Hook') throw forbidden();
  const given = variablesOf(variables);
  const { actor, source } = (await ofTrigger(ctx, id, token)) ?? (await ofJob(ctx, token)) ?? refused();
  const { requestId, signal, services } = ctx;
  const own = createContextFactory(services)({ actor, requestId, signal });
  const wanted = { ref, source, variables: given, inputs, inputs_are_texts };
  return createPipeline(own, await getProject(own, id), wanted);
};

const refused = (): never => {
  throw notFound();
};

interface Starter {
  readonly actor: Actor;
  readonly source: 'trigger' | 'pipeline';
}

/** Returns the owner of the project's trigger with this token, or null. */
const ofTrigger = async (ctx: Context, id: IdOrPath, token: string): Promise<Starter | null> => {
  const trigger = await ctx.db
    .selectFrom('pipeline_triggers')
    .select(['id', 'owner_id', 'project_id'])
    .where('digest', '=', digestToken(token))
    .executeTakeFirst();
  if (!trigger || trigger.owner_id === null) return null;
  const project = await findProject({ ...ctx, actor: systemActor }, id);
  const actor = project?.id === trigger.project_id ? await actorFor(ctx.services, trigger.owner_id) : null;
  if (!actor) return null;
  await ctx.db
    .updateTable('pipeline_triggers')
    .set({ last_used_at: sql`now()` })
    .where('id', '=', trigger.id)
    .execute();
  return { actor, source: 'trigger' };
};

/** Returns the user of the running job with this token, or null. */
const ofJob = async ({ services, client }: Context, token: string): Promise<Starter | null> => {
  try {
    const where = client.ip === null ? {} : { ip: client.ip };
    const actor = await authenticate(services, { kind: 'job_token', value: token }, { sudo: null, ...where });
    return { actor, source: 'pipeline' };
  } catch (error) {
    // A wrong token looks like a project that does not exist.
    if (error instanceof DomainError) return null;
    throw error;
  }
};

const variablesOf = (variables: Readonly<Record<string, unknown>>) =>
  Object.entries(variables).map(([key, value]) => {
    if (typeof value !== 'string') throw badParameters('variables needs to be a map of key-valued strings');
    return { key, value };
  });
