import { sql } from 'kysely';
import type { TestApp, TestUser } from '../support/app.ts';
import type { Answer } from '../support/client.ts';

export interface Downloaded {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Exports the project and downloads the file. */
export const downloadExport = async (app: TestApp, user: TestUser, projectId: number): Promise<Downloaded> => {
  const asked = await app.as(user).post(`/projects/${projectId}/export`);
  if (asked.status !== 202) throw new Error(`not accepted: ${asked.status} ${JSON.stringify(asked.body)}`);
  await app.settle();
  const status = await app.as(user).get(`/projects/${projectId}/export`);
  if (status.body.export_status !== 'finished') throw new Error(`not exported: ${JSON.stringify(status.body)}`);
  const response = await app.as(user).fetch('GET', `/projects/${projectId}/export/download`);
  if (response.status !== 200) throw new Error(`not downloaded: ${response.status}`);
  const name = /filename="([^"]*)"/.exec(response.headers.get('content-disposition') ?? '')?.[1] ?? '';
  return { name, bytes: Buffer.from(await response.arrayBuffer()) };
};

/** Uploads an archive, which schedules the import job. */
export const importArchive = async (
  app: TestApp,
  user: TestUser,
  bytes: Buffer,
  fields: Readonly<Record<string, string>>,
): Promise<Answer> => {
  const form = new FormData();
  form.set('file', new Blob([new Uint8Array(bytes)], { type: 'application/gzip' }), 'export.tar.gz');
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  return app.as(user).post('/projects/import', form);
};

/** Gives the project a record of every relation, directly in the database because not every record has an API yet. */
export const fillProject = async (app: TestApp, projectId: number, author: TestUser): Promise<void> => {
  const { db } = app.hub.services;
  const a = sql.lit(author.id);
  const p = sql.lit(projectId);
  await sql`
    with
      label as (insert into labels (project_id, title, color, description, priority, archived, lock_on_merge) values
        (${p}, 'bug', '#ff0000', 'Something "wrong" \\ here', 2, false, true), (${p}, 'idea', '#00ff00', null, null, true, false) returning id, title),
      milestone as (insert into milestones (project_id, iid, title, due_date, description) values
        (${p}, 1, 'v1', '2026-12-24', E'two\nlines'), (${p}, 3, 'v3', null, null) returning id, iid),
      issue as (insert into issues (project_id, iid, title, description, author_id, milestone_id, weight, state, closed_at, closed_by_id, confidential, created_at)
        select ${p}, n, 'Issue ' || n, 'Described {"a": [' || n || ']} ☃', ${a}, (select id from milestone where iid = 1), n,
          case when n % 2 = 0 then 'closed' else 'opened' end, case when n % 2 = 0 then timestamptz '2026-01-02 03:04:05.678901Z' end,
          case when n % 2 = 0 then ${a}::bigint end, n = 5, timestamptz '2025-05-05 05:05:05.123456Z' + n * interval '1 hour'
        from generate_series(1, 7) n returning id, iid),
      assignee as (insert into issue_assignees (issue_id, user_id) select id, ${a} from issue where iid < 3),
      links as (insert into label_links (issue_id, label_id) select issue.id, label.id from issue, label where issue.iid < 4),
      note as (insert into notes (project_id, noteable_type, issue_id, note, author_id, discussion_id, system, system_note_action)
        select ${p}, 'Issue', id, 'Note ' || k || ' of ' || iid, ${a}, md5(iid || '-' || k) || '00000000', k = 2, case when k = 2 then 'closed' end
        from issue, generate_series(1, 2) k returning id, issue_id),
      award as (insert into award_emoji (name, user_id, note_id) select 'thumbsup', ${a}, id from note),
      award_issue as (insert into award_emoji (name, user_id, issue_id) select 'tada', ${a}, id from issue where iid = 1),
      timelog as (insert into timelogs (issue_id, user_id, time_spent, spent_at, summary)
        select id, ${a}, 3600, '2026-01-01', 'worked' from issue where iid = 1),
      history as (insert into resource_events (issue_id, kind, user_id, state, action, label_id, milestone_id)
        select issue.id, 'state', ${a}, 'closed', null, null::bigint, null::bigint from issue where iid = 2
        union all select issue.id, 'label', ${a}, null, 'add', label.id, null from issue, label where iid = 1
        union all select issue.id, 'milestone', ${a}, 'opened', 'add', null, milestone.id from issue, milestone where issue.iid = 1 and milestone.iid = 1),
      request as (insert into merge_requests (project_id, source_project_id, iid, title, description, author_id, source_branch, target_branch, state, merged_at, draft, milestone_id, force_remove_source_branch, merge_after, last_edited_at, last_edited_by_id)
        select ${p}, ${p}, n, 'Request ' || n, 'Please', ${a}, 'topic-' || n, 'main', case when n = 2 then 'merged' else 'opened' end,
          case when n = 2 then timestamptz '2026-02-02 02:02:02Z' end, n = 1, (select id from milestone where iid = 3), true, timestamptz '2027-01-01 00:00:00Z', timestamptz '2026-02-01 00:00:00Z', ${a}::bigint
        from generate_series(1, 2) n returning id, iid),
      request_note as (insert into notes (project_id, noteable_type, merge_request_id, note, author_id, discussion_id, type, position, original_position, change_position, line_code, st_diff, resolved_at, resolved_by_id)
        select ${p}, 'MergeRequest', id, 'On a line', ${a}, md5(iid::text) || '11111111', 'DiffNote', '{"new_path": "README.md", "new_line": 1}',
          '{"new_path": "README.md", "new_line": 2}', '{"new_path": "README.md", "old_line": 1}', repeat('f', 40) || '_0_1',
          '{"diff": "@@ -0,0 +1 @@\\n+a\\n", "a_mode": "0", "b_mode": "100644", "new_file": true, "new_path": "README.md", "old_path": "README.md", "deleted_file": false, "renamed_file": false}'::jsonb,
          '2026-02-02 02:02:02Z', ${a} from request returning id),
      suggestion as (insert into suggestions (note_id, relative_order, lines_above, lines_below, from_content, to_content, applied, commit_id)
        select id, n, n, 2, E'old\\n', E'new\\n', n = 1, case when n = 1 then repeat('a', 40) end from request_note, generate_series(0, 1) n),
      reviewer as (insert into merge_request_reviewers (merge_request_id, user_id, state, created_at) select id, ${a}, 'approved', '2026-02-01 01:01:01Z' from request),
      request_assignee as (insert into merge_request_assignees (merge_request_id, user_id) select id, ${a} from request),
      request_links as (insert into label_links (merge_request_id, label_id) select request.id, label.id from request, label),
      request_award as (insert into award_emoji (name, user_id, merge_request_id) select 'tada', ${a}, id from request),
      request_timelog as (insert into timelogs (merge_request_id, user_id, time_spent, spent_at) select id, ${a}, 60, '2026-01-01' from request),
      request_history as (insert into resource_events (merge_request_id, kind, user_id, state) select id, 'state', ${a}, 'merged' from request where iid = 2),
      approval as (insert into merge_request_approvals (merge_request_id, user_id, head_sha, patch_id) select id, ${a}, repeat('a', 40), repeat('e', 40) from request),
      diff as (insert into merge_request_diffs (merge_request_id, head_commit_sha, real_size, commits_count, files_count)
        select id, repeat('a', 40), '1', 1, 1 from request returning id),
      diff_commit as (insert into merge_request_diff_commits (diff_id, relative_order, sha, message, author_name, author_email, authored_date)
        select id, 0, repeat('a', 40), E'First\n\nBody', 'Ada', 'ada@example.com', '2026-01-01' from diff),
      diff_file as (insert into merge_request_diff_files (diff_id, relative_order, old_path, new_path, a_mode, b_mode, diff)
        select id, 0, 'a.txt', 'a.txt', '100644', '100644', E'@@ -1 +1 @@\n-a\n+"b"\\\n' from diff),
      older as (insert into merge_request_diffs (merge_request_id, head_commit_sha, real_size, commits_count, files_count, is_latest, state)
        select id, repeat('b', 40), '1', 1, 1, false, 'without_files' from request returning id),
      older_commit as (insert into merge_request_diff_commits (diff_id, relative_order, sha, message)
        select id, 0, repeat('b', 40), 'Earlier' from older),
      pipeline as (insert into pipelines (project_id, iid, ref, sha, status, user_id, name, merge_request_id)
        select ${p}, n, 'main', repeat('b', 40), 'success', ${a}, 'Build', (select id from request where iid = 1)
        from generate_series(1, 2) n returning id),
      stage as (insert into stages (pipeline_id, name, status, position) select id, 'test', 'success', 0 from pipeline returning id, pipeline_id),
      job as (insert into jobs (project_id, pipeline_id, stage_id, kind, name, status, user_id, options, coverage, exit_code, timeout, interruptible, run_when, erased_at, erased_by_id, tags)
        select ${p}, pipeline_id, id, kind, kind, 'failed', ${a}, '{"script": ["make"]}', 12.5, 3, 600, true, 'on_failure', '2026-02-03 00:00:00Z', ${a},
          case when kind = 'build' then array['linux', 'a "b"'] else '{}' end from stage,
          unnest(array['build', 'bridge', 'generic_commit_status']) kind returning id, kind),
      need as (insert into job_needs (job_id, name, artifacts, optional)
        select id, name, name = 'compile', name = 'lint' from job, unnest(array['compile', 'lint']) name where kind = 'build'),
      subscribed as (insert into subscriptions (user_id, issue_id, subscribed) select ${a}, id, iid = 1 from issue where iid < 3),
      subscribed_too as (insert into subscriptions (user_id, merge_request_id, subscribed) select ${a}, id, iid = 1 from request),
      subscribed_label as (insert into subscriptions (user_id, label_id, subscribed) select ${a}, id, title = 'bug' from label),
      attribute as (insert into custom_attributes (project_id, key, value) values (${p}, 'department', 'Mills')),
      commit_note as (insert into notes (project_id, noteable_type, commit_id, note, author_id, discussion_id)
        values (${p}, 'Commit', repeat('c', 40), 'On a commit', ${a}, repeat('d', 40))),
      release as (insert into releases (project_id, tag, name, description, author_id, released_at)
        values (${p}, 'v1.0', 'One', 'First', ${a}, '2026-03-03 03:03:03Z') returning id),
      release_link as (insert into release_links (release_id, name, url, link_type) select id, 'binary', 'https://example.com/b', 'package' from release),
      release_milestone as (insert into release_milestones (release_id, milestone_id) select release.id, milestone.id from release, milestone where iid = 1),
      snippet as (insert into snippets (project_id, title, file_name, content, author_id, visibility_level)
        values (${p}, 'Snippet', 'a.rb', 'puts 1', ${a}, 10) returning id),
      snippet_note as (insert into notes (project_id, noteable_type, snippet_id, note, author_id, discussion_id)
        select ${p}, 'Snippet', id, 'On a snippet', ${a}, repeat('e', 40) from snippet),
      tag as (insert into protected_tags (project_id, name) values (${p}, 'v*') returning id),
      tag_level as (insert into protection_levels (protected_tag_id, action, access_level) select id, 'create', 40 from tag),
      schedule as (insert into pipeline_schedules (project_id, description, ref, cron, owner_id, active, inputs)
        values (${p}, 'Nightly', 'main', '0 4 * * *', ${a}, false, '[{"name": "level", "value": 2}]'))
    select 1`.execute(db);
  await sql`update projects set open_issues_count = 3, topics = '{one,two}', merge_method = 'ff', squash_option = 'always',
    wiki_access_level = 'disabled', build_timeout = 1200, auto_devops_enabled = true, ci_default_git_depth = 7
    where id = ${p}`.execute(db);
};

/** Imports an archive, waits for its end, and returns the import record. */
export const runImport = async (
  app: TestApp,
  user: TestUser,
  bytes: Buffer,
  fields: Readonly<Record<string, string>>,
) => {
  const started = await importArchive(app, user, bytes, fields);
  if (started.status !== 201) throw new Error(`not accepted: ${started.status} ${JSON.stringify(started.body)}`);
  await app.settle();
  return (await app.as(user).get(`/projects/${started.body.id}/import`)).body;
};
