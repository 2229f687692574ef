import { JobRef } from '#domains/ci/graphql.ts';
import { loadProject } from '#domains/projects/graphql.ts';
import { getProject } from '#domains/projects/queries.ts';
import { builder } from '#graphql/builder.ts';
import { eventCursor, subscriptionField } from '#graphql/subscription.ts';
import { badRequest } from '#platform/errors.ts';
import { watchTrace } from './commands.ts';
import { traceAppended } from './events.ts';
import { getProjectIdOfJob, getTrace, lineStart, readTraceText, type Trace, traceOf } from './queries.ts';
import { htmlOf } from './text.ts';

/** The part of a log that a query reads at most. */
const MAX_TEXT_BYTES = 500_000;
const MAX_LINES = 100;

const TraceRef = builder.objectRef<Trace>('CiJobTrace').implement({
  description: 'The log of a job.',
  fields: (t) => ({
    size: t.field({ type: 'BigInt', nullable: false, description: 'In bytes.', resolve: ({ size }) => size }),
    text: t.string({
      nullable: false,
      description: `Up to ${MAX_TEXT_BYTES} bytes from \`start\`, as the job printed them.`,
      args: { start: t.arg.int({ defaultValue: 0, description: 'In bytes.' }) },
      resolve: (trace, { start }, ctx) => {
        const first = start ?? 0;
        if (first < 0) throw badRequest('start must be 0 or more');
        return readTraceText(ctx, trace.job_id, first, Math.min(trace.size, first + MAX_TEXT_BYTES) - 1);
      },
    }),
    htmlSummary: t.string({
      nullable: false,
      description: 'The last lines as HTML, without colours.',
      args: { lastLines: t.arg.int({ defaultValue: 10, description: `At most ${MAX_LINES}.` }) },
      resolve: async (trace, { lastLines }, ctx) => {
        const lines = lastLines ?? 10;
        if (lines < 1 || lines > MAX_LINES) throw badRequest(`lastLines must be 1 to ${MAX_LINES}`);
        const start = await lineStart(ctx, trace.job_id, Math.max(0, trace.size - MAX_TEXT_BYTES));
        return htmlOf(await readTraceText(ctx, trace.job_id, start, trace.size - 1), lines);
      },
    }),
  }),
});

builder.objectField(JobRef, 'trace', (t) =>
  t.field({
    type: TraceRef,
    nullable: true,
    description: 'The log. Null if the job prints its variables and the viewer is not a developer.',
    resolve: async (job, _args, ctx) => {
      const project = await loadProject(ctx, job.project_id);
      return project && traceOf(ctx, project, job);
    },
  }),
);

interface Appended {
  readonly cursor: string;
  readonly start: number;
  readonly text: string;
}

const AppendedRef = builder.objectRef<Appended>('CiJobTraceAppended').implement({
  description: 'New lines of the log of a job.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    cursor: t.exposeString('cursor', {
      nullable: false,
      description: 'Pass it as `after` to continue after these lines.',
    }),
    start: t.field({
      type: 'BigInt',
      nullable: false,
      description:
        'Where the text begins in the log, in bytes. If it is more than the end of the last text, read the log.',
      resolve: ({ start }) => start,
    }),
    text: t.exposeString('text', { nullable: false, description: 'Whole lines.' }),
  }),
});

subscriptionField('ciJobTraceAppended', {
  description: 'Follows the log of a job. Sends whole lines when the runner has sent them, every few seconds.',
  type: AppendedRef,
  args: (t) => ({ jobId: t({ type: 'JobID', required: true }) }),
  open: async (ctx, { jobId }) => {
    const project_id = await getProjectIdOfJob(ctx, jobId);
    await getTrace(ctx, await getProject(ctx, { id: project_id }), jobId);
    return { kinds: new Set([traceAppended.kind]), project_id, subject: { type: 'Ci::Build', id: jobId } };
  },
  resolve: async (event, _args, ctx) => {
    const { job_id, start, end } = traceAppended.payload.parse(event.payload);
    const first = await lineStart(ctx, job_id, start);
    const last = Math.min(await lineStart(ctx, job_id, end), first + MAX_TEXT_BYTES);
    await watchTrace(ctx, job_id);
    if (last <= first) return null;
    return { cursor: eventCursor(event), start: first, text: await readTraceText(ctx, job_id, first, last - 1) };
  },
});
