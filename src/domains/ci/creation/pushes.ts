import { type RawBuilder, sql } from 'kysely';
import { z } from 'zod';
import { lacksCiFile } from '#domains/ci-config/config-path.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { repositoryUpdated } from '#domains/repositories/events.ts';
import { tagName } from '#domains/repositories/model.ts';
import { type PushOptions, pushOptionsSchema } from '#domains/repositories/push-options.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import type { Context } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { GitError } from '#platform/git/git-error.ts';
import { defineJob } from '#platform/jobs.ts';
import { createPipeline, isRefusal } from '../create.ts';
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
    const pushed = await findPushed(
      tx,
      sql`events.position = any (${events.map(({ position }) => position)}::bigint[])`,
    );
    const idle = await mapLimit(pushed, READ_AT_ONCE, (each) => createsNothing(tx, each));
    for (const [at, { input }] of pushed.entries())
      if (!idle[at]) tx.enqueue(createForPush, input, { key: `ci.${input.key}` });
  },
});

/** A branch or tag that a push has moved. */
interface Pushed {
  readonly input: z.output<typeof pushInput>;
  readonly project: Pick<ProjectRow, 'disk_path' | 'ci_config_path'>;
}

/** Returns the branches and tags that the pushes of these events may create pipelines for. */
export const findPushed = async (
  { db }: Pick<Context, 'db'>,
  areThese: RawBuilder<boolean>,
): Promise<readonly Pushed[]> => {
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
    select events.id, events.project_id, events.actor_id as user_id, c.ref, c.before, c.after, p.disk_path,
      p.ci_config_path, events.payload -> 'hook_only' -> 'push_options' as options
    from events join projects p on p.id = events.project_id and p.builds_access_level <> 'disabled',
      lateral (select change ->> 'ref' as ref, change ->> 'before' as before, change ->> 'after' as after
        from jsonb_array_elements(events.payload -> 'changes') with ordinality as c (change, position)
        where change ->> 'after' is not null and change ->> 'ref' ~ '^refs/(heads|tags)/'
        order by position limit ${MAX_PIPELINES}) c
    where ${areThese} and events.actor_id is not null
      and events.payload -> 'hook_only' -> 'push_options' -> 'job' is null`.execute(db);
  return rows.map(({ id, disk_path, ci_config_path, options, ...push }) => ({
    input: { ...push, options: options ?? {}, key: `push:${id}:${push.ref}` },
    project: { disk_path, ci_config_path },
  }));
};

const READ_AT_ONCE = 8;

/** Returns true if the commit has no CI file. Only a skipped pipeline needs none. Most pushes need no job then. */
const createsNothing = async (ctx: Context, { input: { after, options }, project }: Pushed): Promise<boolean> => {
  if (options.ci?.skip !== undefined) return false;
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

const pushInput = z.object({
  project_id: z.number(),
  user_id: z.number(),
  ref: z.string(),
  before: z.string().nullable(),
  after: z.string(),
  options: pushOptionsSchema,
  key: z.string(),
});

/** The job `ci.create_for_push`: creates the pipeline of a pushed branch or tag, unless there is nothing to run. */
export const createForPush = defineJob({
  name: 'ci.create_for_push',
  input: pushInput,
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
      if (!isRefusal(error)) throw error;
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
