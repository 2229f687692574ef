import { RE2JS } from 're2js';
import { findTrace, lineStart, readTraceText } from '#domains/traces/queries.ts';
import type { Context } from '#platform/context.ts';

/** How much of the log is read at once, from its end. */
const WINDOW_BYTES = 1024 * 1024;
/** A coverage that is printed earlier is not found. */
const MAX_WINDOWS = 16;

/**
 * Returns the number in the last match of a pattern in the log of a job, as a percentage: of the pattern of the job, or
 * else of its project (`build_coverage_regex`). Null without a pattern or a match. Patterns are RE2 expressions; that of
 * the job comes without slashes.
 */
export const findCoverage = async (ctx: Context, job_id: number, ofJob: string | null): Promise<number | null> => {
  const pattern = ofJob ?? (await patternOfProject(ctx, job_id));
  if (!pattern) return null;
  const expression = compile(pattern);
  const trace = await findTrace(ctx, job_id);
  if (!expression || !trace) return null;
  let end = trace.size;
  for (let window = 0; end > 0 && window < MAX_WINDOWS; window++) {
    const start = await lineStart(ctx, job_id, Math.max(0, end - WINDOW_BYTES));
    const found = lastCoverage(await readTraceText(ctx, job_id, start, end - 1), expression);
    if (found !== null) return found;
    end = start;
  }
  return null;
};

/** Returns the pattern of the job's project, which may be enclosed in slashes. */
const patternOfProject = async ({ db }: Context, job_id: number): Promise<string | null> => {
  const row = await db
    .selectFrom('jobs')
    .innerJoin('projects', 'projects.id', 'jobs.project_id')
    .select('projects.build_coverage_regex')
    .where('jobs.id', '=', job_id)
    .executeTakeFirst();
  return row?.build_coverage_regex?.replace(/^\/(.*)\/$/s, '$1') ?? null;
};

/** An expression that the engine does not accept finds nothing. */
const compile = (pattern: string): RE2JS | null => {
  try {
    return RE2JS.compile(pattern);
  } catch {
    return null;
  }
};

const lastCoverage = (text: string, expression: RE2JS): number | null => {
  for (const line of text.split('\n').reverse()) {
    const matcher = expression.matcher(line);
    let last: string | null = null;
    while (matcher.find()) last = (matcher.groupCount() > 0 ? matcher.group(1) : matcher.group()) ?? last;
    const number = /\d+(?:\.\d+)?/.exec(last ?? '')?.[0];
    if (number !== undefined && Number(number) <= 100) return Number(number);
  }
  return null;
};
