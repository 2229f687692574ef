import { randomUUID } from 'node:crypto';
import { visibilityName } from '#domains/access/model.ts';
import { fullRef } from '#domains/ci/model.ts';
import { SIGNING_ALGORITHM, signingKey } from '#domains/oauth/signing-keys.ts';
import type { RunnerFacts } from '#domains/runners/tokens.ts';
import type { Context } from '#platform/context.ts';
import type { JobToRun } from './job-to-run.ts';

/** A token that a job shows to other services, and the name of its variable. */
export interface IdToken {
  readonly key: string;
  readonly value: string;
}

/**
 * Signs the `id_tokens` of a job. They say which project, branch and job they were made for, and are valid as long as
 * the job may run. Services verify them with the keys of `/oauth/discovery/keys`.
 */
export const signIdTokens = async (
  ctx: Context,
  { job, pipeline, project, user, options: { id_tokens } }: JobToRun,
  { facts, timeout }: { readonly facts: RunnerFacts; readonly timeout: number },
): Promise<IdToken[]> => {
  const entries = Object.entries(id_tokens);
  if (entries.length === 0) return [];
  const { SignJWT } = await import('jose');
  const { kid, key } = await signingKey(ctx);
  const ref = pipeline.ref ?? '';
  const ref_type = job.tag ? 'tag' : 'branch';
  const claims = {
    namespace_id: String(project.namespace_id),
    namespace_path: project.namespace.full_path,
    project_id: String(project.id),
    project_path: project.full_path,
    project_visibility: visibilityName(project.visibility_level),
    ...(user ? { user_id: String(user.id), user_login: user.username, user_email: user.email } : {}),
    pipeline_id: String(pipeline.id),
    pipeline_source: pipeline.source,
    job_id: String(job.id),
    ref,
    ref_type,
    ref_path: fullRef(ref, job.tag),
    ref_protected: String(job.protected),
    runner_id: facts.id,
    runner_environment: 'self-hosted',
    sha: pipeline.sha,
    ...(job.environment === null ? {} : { environment: job.environment }),
  };
  const now = Math.floor(ctx.clock.now().getTime() / 1_000);
  return Promise.all(
    entries.map(async ([name, { aud }]) => ({
      key: name,
      value: await new SignJWT(claims)
        .setProtectedHeader({ alg: SIGNING_ALGORITHM, kid, typ: 'JWT' })
        .setIssuer(ctx.services.urls.base)
        .setSubject(`project_path:${project.full_path}:ref_type:${ref_type}:ref:${ref}`)
        .setAudience(aud.length === 1 ? (aud[0] ?? '') : [...aud])
        .setJti(randomUUID())
        .setIssuedAt(now)
        .setNotBefore(now - CLOCK_SKEW_SECONDS)
        .setExpirationTime(now + timeout)
        .sign(key),
    })),
  );
};

/** Clocks of other services may be behind. */
const CLOCK_SKEW_SECONDS = 5;
