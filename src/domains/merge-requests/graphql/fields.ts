import { LabelConnection, LabelRef, loadMergeRequestLabels } from '#domains/labels/graphql.ts';
import { loadHtml } from '#domains/markdown/graphql.ts';
import { loadMilestone, MilestoneRef } from '#domains/milestones/graphql.ts';
import { humanDuration } from '#domains/planning/time-tracking.ts';
import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { loadUser, UserConnection, UserRef } from '#domains/users/graphql.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import type { TextFields } from '#graphql/text-rows.ts';
import type { Context } from '#platform/context.ts';
import { loadStats, MergeRequestStateEnum } from '../graphql.ts';
import { descriptionProse, fullReference, mergeRequestWebUrl, stateOf, titleProse } from '../model.ts';
import type { MergeRequestStats } from '../queries.ts';
import { mergeRequestField } from './columns.ts';

// The fields of MergeRequest that lists ask for most.

/** The fields that are plain columns, so that lists of them pass as text. */
export const plainFields: TextFields = {
  iid: { column: 'iid', as: 'quoted' },
  title: { column: 'title', as: 'string' },
  description: { column: 'description', as: 'string' },
  // The values of the enum are those of the column.
  state: { column: 'state', as: 'quoted' },
  draft: { column: 'draft', as: 'raw' },
  sourceBranch: { column: 'source_branch', as: 'string' },
  targetBranch: { column: 'target_branch', as: 'string' },
  projectId: { column: 'project_id', as: 'raw' },
  targetProjectId: { column: 'project_id', as: 'raw' },
  author: { column: 'author_id', as: 'slot', load: loadUser },
};

mergeRequestField('id', ['id'], (t) => t.id({ nullable: false, resolve: ({ id }) => gid('MergeRequest', id) }));
mergeRequestField('iid', ['iid'], (t) => t.string({ nullable: false, resolve: ({ iid }) => String(iid) }));
mergeRequestField('title', ['title'], (t) => t.exposeString('title', { nullable: false }));
mergeRequestField('description', ['description'], (t) => t.exposeString('description'));
mergeRequestField('titleHtml', ['title', 'project_id'], (t) =>
  t.string({ resolve: (row, _args, ctx) => loadHtml(ctx, titleProse(row)) }),
);
mergeRequestField('descriptionHtml', ['description', 'project_id'], (t) =>
  t.string({ resolve: (row, _args, ctx) => loadHtml(ctx, descriptionProse(row)) }),
);
mergeRequestField('state', ['state'], (t) =>
  t.field({ type: MergeRequestStateEnum, nullable: false, resolve: stateOf }),
);
mergeRequestField('draft', ['draft'], (t) => t.exposeBoolean('draft', { nullable: false }));
mergeRequestField('sourceBranch', ['source_branch'], (t) => t.exposeString('source_branch', { nullable: false }));
mergeRequestField('targetBranch', ['target_branch'], (t) => t.exposeString('target_branch', { nullable: false }));
mergeRequestField('projectId', ['project_id'], (t) => t.exposeInt('project_id', { nullable: false }));
mergeRequestField('targetProjectId', ['project_id'], (t) => t.exposeInt('project_id', { nullable: false }));
for (const name of ['project', 'targetProject']) {
  mergeRequestField(name, ['project_id'], (t) =>
    t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
  );
}
mergeRequestField('author', ['author_id'], (t) =>
  t.field({
    type: UserRef,
    nullable: true,
    resolve: ({ author_id: id }, _args, ctx) => (id === null ? null : loadUser.find(ctx, id)),
  }),
);
mergeRequestField('milestone', ['milestone_id'], (t) =>
  t.field({
    type: MilestoneRef,
    resolve: ({ milestone_id: id }, _args, ctx) => (id === null ? null : loadMilestone(ctx, id)),
  }),
);
mergeRequestField('labels', ['id'], (t) =>
  t.connection(
    {
      type: LabelRef,
      extensions: { usualSize: 5 },
      resolve: ({ id }, args, ctx, info) =>
        connection(args, info, async (page) =>
          pageOfAll(page, (await loadMergeRequestLabels(ctx, id)) ?? [], (label) => [label.title, label.id]),
        ),
    },
    LabelConnection,
  ),
);
mergeRequestField('createdAt', ['created_at'], (t) => t.expose('created_at', { type: 'Time', nullable: false }));
mergeRequestField('updatedAt', ['updated_at'], (t) => t.expose('updated_at', { type: 'Time', nullable: false }));
mergeRequestField('mergedAt', ['merged_at'], (t) => t.expose('merged_at', { type: 'Time' }));
mergeRequestField('closedAt', ['closed_at'], (t) => t.expose('closed_at', { type: 'Time' }));
mergeRequestField('webUrl', ['iid', 'project_path'], (t) =>
  t.string({ nullable: false, resolve: (row, _args, ctx) => mergeRequestWebUrl(ctx, row) }),
);
mergeRequestField('webPath', ['iid', 'project_path'], (t) =>
  t.string({ nullable: false, resolve: ({ iid, project_path }) => `/${project_path}/-/merge_requests/${iid}` }),
);
mergeRequestField('reference', ['iid', 'project_path'], (t) =>
  t.string({
    nullable: false,
    args: { full: t.arg.boolean({ defaultValue: false }) },
    resolve: (row, { full }) => (full ? fullReference(row) : `!${row.iid}`),
  }),
);

const statsOf = async (ctx: Context, { id }: { readonly id: number }): Promise<MergeRequestStats> =>
  (await loadStats(ctx, id)) ?? {
    id,
    assignee_ids: [],
    reviewer_ids: [],
    approver_ids: [],
    upvotes: 0,
    downvotes: 0,
    user_notes_count: 0,
    total_time_spent: 0,
  };

const peopleField = (name: string, column: 'assignee_ids' | 'approver_ids') =>
  mergeRequestField(name, ['id'], (t) =>
    t.connection(
      {
        type: UserRef,
        extensions: { usualSize: 5 },
        resolve: (row, args, ctx, info) =>
          connection(args, info, async (page) => {
            const ids = (await statsOf(ctx, row))[column];
            const users = await Promise.all(ids.map((id) => loadUser(ctx, id)));
            return pageOfAll(
              page,
              users.filter((user) => user !== null),
              (user) => [user.id],
            );
          }),
      },
      UserConnection,
    ),
  );
peopleField('assignees', 'assignee_ids');
peopleField('approvedBy', 'approver_ids');

const countField = (name: string, column: 'upvotes' | 'downvotes' | 'user_notes_count' | 'total_time_spent') =>
  mergeRequestField(name, ['id'], (t) =>
    t.int({ nullable: false, resolve: async (row, _args, ctx) => (await statsOf(ctx, row))[column] }),
  );
countField('upvotes', 'upvotes');
countField('downvotes', 'downvotes');
countField('userNotesCount', 'user_notes_count');
countField('totalTimeSpent', 'total_time_spent');
mergeRequestField('humanTotalTimeSpent', ['id'], (t) =>
  t.string({ resolve: async (row, _args, ctx) => humanDuration((await statsOf(ctx, row)).total_time_spent) }),
);
