import type pg from 'pg';
import { PEOPLE, WATCHED } from '../fill/watched.ts';

/** Values of path parameters and filters, for the watched project and group of a database filled with `--scale`. */
export interface Samples {
  /** Values by name, or by the folder and the name: `issues/iid`. */
  readonly values: ReadonlyMap<string, string>;
}

export const findSamples = async (pool: pg.Pool): Promise<Samples> => {
  const { rows } = await pool.query<Record<string, string>>(
    `select p.id::text as "projects/id", p.full_path, n.id::text as namespace_id,
       (select id::text from users where username = $2) as user_id,
       (select i.iid::text from issues i where i.project_id = p.id order by i.id limit 1) as "issues/iid",
       (select m.iid::text from merge_requests m where m.project_id = p.id order by m.id limit 1) as "merge_requests/iid",
       (select id::text from milestones m where m.project_id = p.id limit 1) as milestone_id,
       (select id::text from webhooks h where h.project_id = p.id limit 1) as hook_id,
       (select id::text from pipelines i where i.project_id = p.id order by id limit 1) as pipeline_id,
       (select id::text from jobs j where j.project_id = p.id order by id limit 1) as job_id,
       (select id::text from notes o where o.project_id = p.id and o.issue_id is not null order by id limit 1) as note_id
     from projects p join namespaces n on n.id = p.namespace_id where p.full_path = $1`,
    [WATCHED.branches, PEOPLE.few.username],
  );
  const [found] = rows;
  if (!found) throw new Error('the database was not filled with --scale');
  const values = new Map(Object.entries(found));
  const copy = (from: string, ...to: readonly string[]) => {
    for (const name of to) values.set(name, values.get(from) ?? '');
  };
  copy('issues/iid', 'issues/noteable_iid', 'iid', 'iids');
  copy('merge_requests/iid', 'merge_requests/noteable_iid', 'merge_requests/merge_request_iid');
  copy('user_id', 'users/id', 'users/user_id', 'author_id', 'assignee_id', 'reviewer_id', 'id');
  const fixed = {
    'groups/id': WATCHED.group,
    'runners/id': '1',
    'templates/type': 'issues',
    sha: 'main',
    search: 'problem',
    labels: 'bug',
    milestone: '1.0',
    username: PEOPLE.few.username,
    topic: WATCHED.rareTopic,
    with_programming_language: WATCHED.rareLanguage,
    ref: 'main',
    trigger: 'push_events',
    status: 'successful',
    fullPath: values.get('full_path') ?? '',
  };
  for (const [name, value] of Object.entries(fixed)) values.set(name, value);
  return { values };
};

/** Returns a value for a filter by its name and type, or null if there is no sensible one. */
export const sampleOf = (
  { values }: Samples,
  name: string,
  type: { readonly kind: string; readonly options?: readonly string[] | undefined },
): string | null => {
  const known = values.get(name) ?? values.get(name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
  if (known !== undefined && (!type.options?.length || type.options.includes(known))) return known;
  if (type.options?.length) return type.options[0] ?? null;
  if (type.kind === 'boolean') return 'true';
  if (/username$/i.test(name)) return PEOPLE.few.username;
  if (type.kind === 'date') return '2025-01-01';
  if (type.kind === 'date-time' || /(after|before|since|until)$/i.test(name)) return '2025-01-01T00:00:00Z';
  if (type.kind === 'integer') return /level/i.test(name) ? '30' : '1';
  return type.kind === 'string' ? 'main' : null;
};
