import { getProject } from '#domains/projects/queries.ts';
import { idOrPath, integer } from '#rest/params.ts';
import { type Route, streamRoute } from '#rest/route.ts';
import { getTrace, readTrace } from './queries.ts';

export const routes: readonly Route[] = [
  streamRoute({
    method: 'GET',
    path: '/projects/:id/jobs/:job_id/trace',
    tag: 'Jobs',
    summary: 'Read the log of a job',
    description:
      'Plain text with the escape sequences and section marks that the job printed; empty if it printed nothing. Supports `Range`, so that clients can read on while the job runs. If the job prints its variables (debug_trace), only developers read it.',
    auth: 'optional',
    input: { id: idOrPath(), job_id: integer({ min: 1 }) },
    run: async (ctx, { id, job_id }) => {
      const trace = await getTrace(ctx, await getProject(ctx, id), job_id);
      return {
        stream: () => readTrace(ctx, trace, { start: 0, end: trace.size - 1 }),
        part: (part) => readTrace(ctx, trace, part),
        size: trace.size,
        contentType: 'text/plain; charset=utf-8',
        headers: { 'Content-Security-Policy': "default-src 'none'; sandbox" },
      };
    },
  }),
];
