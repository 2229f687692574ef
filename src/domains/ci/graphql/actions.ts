import { builder } from '#graphql/builder.ts';
import type { Context } from '#platform/context.ts';
import { archivedBefore, isArchived } from '../archived.ts';
import { isCancelable, isPlayable, isRetryable } from '../commands.ts';
import { DetailedStatusRef } from '../graphql.ts';
import type { JobRow } from '../queries.ts';
import { mayRun, mayStop } from './running.ts';

// The button that pages show beside the status of a job.

interface Action {
  readonly call: 'play' | 'cancel' | 'retry';
  readonly icon: string;
  readonly title: string;
  readonly button_title: string;
}

const PLAY: Action = { call: 'play', icon: 'play', title: 'Run', button_title: 'Run this manual job' };
const PLAY_NOW: Action = { ...PLAY, button_title: 'Run this delayed job now' };
const CANCEL: Action = { call: 'cancel', icon: 'cancel', title: 'Cancel', button_title: 'Cancel this job' };
const RETRY: Action = { call: 'retry', icon: 'retry', title: 'Retry', button_title: 'Retry this job' };

const actionOf = async (ctx: Context, job: JobRow): Promise<Action | null> => {
  if (isCancelable(job) && job.status !== 'scheduled') return (await mayStop(ctx, job)) ? CANCEL : null;
  if (isArchived(job, await archivedBefore(ctx)) || !(await mayRun(ctx, job))) return null;
  if (isRetryable(job)) return RETRY;
  if (!isPlayable(job)) return null;
  return job.status === 'scheduled' ? PLAY_NOW : PLAY;
};

interface OfferedAction extends Action {
  readonly job: JobRow;
}

const ActionRef = builder.objectRef<OfferedAction>('StatusAction').implement({
  description: 'What the caller can do with a job now.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ job, call }) => `${job.id}-${call}` }),
    icon: t.exposeString('icon'),
    title: t.exposeString('title'),
    buttonTitle: t.exposeString('button_title'),
    confirmationMessage: t.string({
      description: 'Null: a CI file cannot ask for a confirmation.',
      resolve: () => null,
    }),
    method: t.string({ description: 'The HTTP method of the call.', resolve: () => 'post' }),
    path: t.string({
      description: 'The path of the REST call.',
      resolve: ({ job, call }) => `/api/v4/projects/${job.project_id}/jobs/${job.id}/${call}`,
    }),
  }),
});

builder.objectField(DetailedStatusRef, 'action', (t) =>
  t.field({
    type: ActionRef,
    description: 'What the caller can do now. Only for jobs, and null if there is nothing.',
    resolve: async ({ job }, _args, ctx) => {
      const action = job && (await actionOf(ctx, job));
      return action ? { ...action, job } : null;
    },
  }),
);
