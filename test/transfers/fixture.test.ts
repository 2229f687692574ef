import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { fixtureFiles, packFiles } from './archive.ts';
import { runImport } from './support.ts';

const app = useApp();
const files = fixtureFiles();
const linesOf = (name: string) =>
  (files?.[`tree/project/${name}.ndjson`] ?? '')
    .toString()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

describe.skipIf(files === null)('the archive of a real platform', () => {
  it('is imported completely, and its users are found only by their addresses', async () => {
    const { db } = app().hub.services;
    const bernard = await app().make.user({ email: 'bernard_willms@gitlabexample.com' });
    // This user has the name of a user in the archive, but another address.
    const impostor = await app().make.user({ username: 'saul_will', email: 'other@example.com' });
    const archive = await packFiles(files ?? {});
    const record = await runImport(app(), app().root, archive, { path: 'fixture' });
    expect(record).toMatchObject({
      import_status: 'finished',
      import_error: null,
      description: 'Nisi et repellendus ut enim quo accusamus vel magnam.',
    });
    const failures: { relation_name: string; exception_message: string }[] = record.failed_relations;

    const count = async (table: string, where = 'true') =>
      (
        await sql<{
          n: number;
        }>`select count(*) as n from ${sql.table(table)} where project_id = ${record.id} and ${sql.raw(where)}`.execute(
          db,
        )
      ).rows[0]?.n;
    const notes = [
      ...['issues', 'merge_requests', 'snippets', 'ci_pipelines'].flatMap((name) =>
        linesOf(name).flatMap((line) => line.notes ?? []),
      ),
      ...linesOf('commit_notes'),
    ];
    expect(failures.map((each) => [each.relation_name, each.exception_message.split(' ')[5]]).sort()).toEqual([
      ['ci_pipelines', 'external_pull_request'],
      ['issues', 'sentry_issue'],
      ['issues', 'zoom_meetings'],
      ['snippets', 'award_emoji'],
    ]);
    expect(await count('issues')).toBe(linesOf('issues').length);
    expect(await count('merge_requests')).toBe(linesOf('merge_requests').length);
    expect(await count('pipelines')).toBe(linesOf('ci_pipelines').length);
    expect(await count('milestones')).toBe(linesOf('milestones').length);
    const titles = new Set(
      [
        ...linesOf('labels'),
        ...linesOf('issues').flatMap((i) => i.label_links.map((l: { label: unknown }) => l.label)),
        ...linesOf('merge_requests').flatMap((m) => (m.label_links ?? []).map((l: { label: unknown }) => l.label)),
      ].map((label) => label.title),
    );
    expect(await count('labels')).toBe(titles.size);
    expect(await count('notes')).toBe(notes.length);
    expect(await count('snippets')).toBe(1);
    expect(await count('releases')).toBe(1);
    expect(await count('protected_branches')).toBe(1);
    expect(await count('pipeline_schedules', 'not active and next_run_at is null')).toBe(1);
    const jobs = linesOf('ci_pipelines')
      .flatMap((line) => line.stages ?? [])
      .flatMap((stage) => [
        ...(stage.statuses ?? []),
        ...(stage.builds ?? []),
        ...(stage.bridges ?? []),
        ...(stage.generic_commit_statuses ?? []),
      ]);
    expect(await count('jobs')).toBe(jobs.length);
    const [request] = linesOf('merge_requests');
    const { rows: diffs } = await sql`
      select (select count(*) from merge_request_diff_commits c where c.diff_id = d.id) as commits,
        (select count(*) from merge_request_diff_files f where f.diff_id = d.id) as files
      from merge_request_diffs d join merge_requests m on m.id = d.merge_request_id where m.project_id = ${record.id}`.execute(
      db,
    );
    expect(diffs).toEqual([
      {
        commits: request.merge_request_diff.merge_request_diff_commits.length,
        files: request.merge_request_diff.merge_request_diff_files.length,
      },
    ]);

    const { rows: members } = await sql<{ user_id: number; access_level: number }>`
      select user_id, access_level from members where project_id = ${record.id} order by id`.execute(db);
    expect(members).toEqual([
      { user_id: app().root.id, access_level: 40 },
      { user_id: bernard.id, access_level: 40 },
    ]);
    const { rows: assignees } = await sql<{ user_id: number }>`
      select user_id from issue_assignees a join issues i on i.id = a.issue_id where i.project_id = ${record.id}`.execute(
      db,
    );
    expect(assignees).toEqual([{ user_id: bernard.id }]);
    expect(members.some((member) => member.user_id === impostor.id)).toBe(false);
    const { rows: credited } = await sql<{
      note: string;
    }>`select note from notes where project_id = ${record.id} and noteable_type = 'Snippet'`.execute(db);
    expect(credited[0]?.note).toBe('*By Random name on 2019-11-05T15:37:24.645Z (imported)*\n\nThis is a test note');
    const project = (await app().as(app().root).get(`/projects/${record.id}`)).body;
    expect(project).toMatchObject({
      visibility: 'internal',
      issues_access_level: 'private',
      group_runners_enabled: false,
      creator_id: app().root.id,
    });
  });

  it('maps every user to the importer if they are not an administrator', async () => {
    const someone = await app().make.user();
    const bernard = await app().make.user({ email: 'bernard2@example.com' });
    const record = await runImport(app(), someone, await packFiles(files ?? {}), { path: 'mine' });
    expect(record.import_status).toBe('finished');
    const { rows } = await sql`
      select distinct author_id from (
        select author_id from issues where project_id = ${record.id}
        union all select author_id from notes where project_id = ${record.id}
        union all select author_id from merge_requests where project_id = ${record.id}) t`.execute(
      app().hub.services.db,
    );
    expect(rows).toEqual([{ author_id: someone.id }]);
    const { rows: members } = await sql`select user_id from members where project_id = ${record.id}`.execute(
      app().hub.services.db,
    );
    expect(members).toEqual([{ user_id: someone.id }]);
    expect(bernard.id).not.toBe(someone.id);
  });
});
