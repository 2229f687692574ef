import { sql } from 'kysely';
import { z } from 'zod';
import { lacksCiFile } from '#domains/ci-config/config-path.ts';
import { findProject } from '#domains/projects/queries.ts';
import { repositoryUpdated } from '#domains/repositories/events.ts';
import { tagName } from '#domains/repositories/model.ts';
import { type PushOptions, pushOptionsSchema } from '#domains/repositories/push-options.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { GitError } from '#platform/git/git-error.ts';
import { defineJob } from '#platform/jobs.ts';
import { createPipeline } from '../create.ts';
import type { PipelineVariable } from './insert.ts';
import { asksToSkip } from './skipping.ts';

/** A push of more branches and tags creates pipelines for the first of them only (reference: ci §2). */
const MAX_PIPELINES = 4;

/**
 * Creates pipelines for the branches and tags that a push moved, also one through the API. Pushes of jobs create none
 * (reference: ci §7).
 */
export const followPushes = defineFollower({
  name: 'ci.pushes',
  payloads: false,
  wants: ({ kind }) => kind === repositoryUpdated.kind,
  handle: async (tx, events) => {
    const { rows } = await sql<{
      id: number;
      project_id: number;
      user_id: number;
      ref: string;
      before: string | null;
      after: string;
      options: PushOptions | null;
      disk_path: string;
      ci_config_path: string | null;
    }>`
      select e.id, e.project_id, e.actor_id as user_id, c.ref, c.before, c.after, p.disk_path, p.ci_config_path,
        e.payload -> 'hook_only' -> 'push_options' as options
      from events e join projects p on p.id = e.project_id and p.builds_access_level <> 'disabled',
        lateral (select change ->> 'ref' as ref, change ->> 'before' as before, change ->> 'after' as after
          from jsonb_array_elements(e.payload -> 'changes') with ordinality as c (change, position)
          where change ->> 'after' is not null and change ->> 'ref' ~ '^refs/(heads|tags)/'
          order by position limit ${MAX_PIPELINES}) c
      where e.position = any (${events.map(({ position }) => position)}::bigint[]) and e.actor_id is not null
        and e.payload -> 'hook_only' -> 'push_options' -> 'job' is null`.execute(tx.db);
    const idle = await mapLimit(rows, READ_AT_ONCE, (row) => createsNothing(tx, row));
    for (const [at, { id, disk_path, ci_config_path, ...push }] of rows.entries()) {
      if (idle[at]) continue;
      const key = `push:${id}:${push.ref}`;
      tx.enqueue(createForPush, { ...push, options: push.options ?? {}, key }, { key: `ci.${key}` });
    }
  },
});

interface Pushed {
  readonly after: string;
  readonly options: PushOptions | null;
  readonly disk_path: string;
  readonly ci_config_path: string | null;
}

const READ_AT_ONCE = 8;

/** Returns true if the commit has no CI file. Only a skipped pipeline needs none. Most pushes need no job then. */
const createsNothing = async (ctx: Context, { after, options, ...project }: Pushed): Promise<boolean> => {
  if (options?.ci?.skip !== undefined) return false;
  try {
    if (!(await lacksCiFile(ctx, project, after))) return false;
    const [commit] = await ctx.services.git.readCommits(project.disk_path, [after]);
    return commit === undefined || !asksToSkip(commit.message);
  } catch (error) {
    // The job tries again.
    if (error instanceof GitError) return false;
    throw error;
  }
};

/** The job `ci.create_for_push`: creates the pipeline of a pushed branch or tag, unless there is nothing to run. */
export const createForPush = defineJob({
  name: 'ci.create_for_push',
  input: z.object({
    project_id: z.number(),
    user_id: z.number(),
    ref: z.string(),
    before: z.string().nullable(),
    after: z.string(),
    options: pushOptionsSchema,
    key: z.string(),
  }),
  maxAttempts: 8,
  run: async (hub, { project_id, user_id, ref, before, after, options, key }) => {
    const ctx = await contextFor(hub, user_id, project_id);
    const project = ctx && (await findProject(ctx, { id: project_id }));
    if (!project) return;
    try {
      await createPipeline(ctx, project, {
        ref,
        source: 'push',
        // A tag may name a tag object. It is resolved again.
        ...(tagName(ref) === null ? { sha: after } : {}),
        before_sha: before,
        variables: variablesIn(options),
        inputs: inputsIn(options),
        inputs_are_texts: true,
        skip: options.ci?.skip !== undefined,
        save_errors: true,
        key,
      });
    } catch (error) {
      // Most pushes have nothing to run: no CI file, or no job whose rules match.
      if (!(error instanceof DomainError)) throw error;
      ctx.log.debug({ err: error, project_id, ref }, 'a push created no pipeline');
    }
  },
});

/** The characters of names of variables and inputs. Options with other names are ignored. */
const ASSIGNMENT = { variable: /^(\w+)=([\s\S]*)$/, input: /^([\w-]+)=([\s\S]*)$/ };

/** Returns the key and value of each option such as `ci.variable="A=1"`. */
const assignments = (options: PushOptions, name: 'variable' | 'input'): [string, string][] => {
  const given = options.ci?.[name];
  return Object.keys(typeof given === 'object' ? given : {}).flatMap((text) => {
    const [, key, value] = ASSIGNMENT[name].exec(text) ?? [];
    return key === undefined || value === undefined ? [] : [[key, value]];
  });
};

const variablesIn = (options: PushOptions): PipelineVariable[] =>
  assignments(options, 'variable').map(([key, value]) => ({ key, value }));

const inputsIn = (options: PushOptions): Record<string, unknown> => Object.fromEntries(assignments(options, 'input'));
