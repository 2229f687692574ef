import type pg from 'pg';
import { seed, tokensOf } from '../data.ts';

/** The user whose own merge requests the lists are about. */
const FEW = 'bench-50';
/** How many merge requests have each rare property, whatever the size of the database. */
const RARE = 30;

/** A list with the number of its matches if that does not depend on the size of the database. */
export interface MergeRequestList {
  readonly name: string;
  /** The path of the REST API, or the GraphQL query. */
  readonly path: string | { readonly query: string };
  readonly anonymous?: boolean;
  readonly matches?: number;
}

export interface FilledMergeRequests {
  readonly token: string;
  readonly lists: readonly MergeRequestList[];
}

/**
 * Fills an empty database with 200 public projects and this many merge requests, half of them in one project. One in
 * fifty is open, one in ten has the common label, and thirty have each rare property.
 */
export const fillMergeRequests = async (pool: pg.Pool, total: number): Promise<FilledMergeRequests> => {
  await seed(pool, { groups: 20, projectsPerGroup: 10, visibility: 'public' });
  const { rows } = await pool.query<{ id: number; few: number }>(
    `select (select min(id) from projects) as id, (select id from users where username = $1) as few`,
    [FEW],
  );
  const { id = 0, few = 0 } = rows[0] ?? {};
  const every = Math.floor(total / 2 / RARE) * 2;
  await pool.query(`
    insert into milestones (project_id, iid, title, due_date) values (${id}, 1, 'rare', '2025-01-01');
    insert into labels (project_id, title, color, priority) values (${id}, 'rare', '#ff0000', 1), (${id}, 'common', '#00ff00', null);
    insert into merge_requests (project_id, source_project_id, iid, title, description, state, source_branch, target_branch,
        author_id, milestone_id, merge_status, created_at, updated_at, merged_at, closed_at)
      select p.id, p.id, i, 'Change ' || md5(i::text) || case when rare then ' quokka' else '' end,
        'What change number ' || i || ' is about, and why somebody wants it.', state, 'topic-' || i,
        case when rare then 'rare' else 'main' end,
        case when rare then ${few} else (select min(id) from users where username like 'bench-%') + i % 40 end,
        case when rare then (select min(id) from milestones) end, 'can_be_merged', at, at + i::bigint * 7919 % 1009 * interval '1 hour',
        case when state = 'merged' then at + interval '1 day' end, case when state = 'closed' then at + interval '1 day' end
      from (select i, i % ${every} = ${every} - 2 and i <= ${every * RARE} as rare,
          case when i % 50 = 0 then 'opened' when i % 10 = 1 then 'closed' else 'merged' end as state,
          case when i % 2 = 0 then ${id} else ${id} + 1 + i % 199 end as project_id,
          timestamptz '2024-01-01Z' + i * interval '10 seconds' as at
        from generate_series(1, ${total}) i) made join projects p on p.id = made.project_id;
    insert into label_links (label_id, merge_request_id)
      select l.id, mr.id from merge_requests mr join labels l on l.title = case when mr.target_branch = 'rare' then 'rare' else 'common' end
      where mr.target_branch = 'rare' or mr.id % 10 = 0;
    insert into merge_request_assignees (merge_request_id, user_id) select id, ${few} from merge_requests where target_branch = 'rare';
    insert into merge_request_reviewers (merge_request_id, user_id) select id, ${few} from merge_requests where target_branch = 'rare';
    insert into award_emoji (merge_request_id, user_id, name) select id, ${few}, 'thumbsup' from merge_requests where target_branch = 'rare'`);
  await pool.query(
    'vacuum (analyze) merge_requests, label_links, merge_request_assignees, merge_request_reviewers, award_emoji',
  );
  const [token = ''] = await tokensOf(pool, [few]);
  return { token, lists: listsOf(id, total) };
};

const listsOf = (project: number, total: number): readonly MergeRequestList[] => {
  const of = `/projects/${project}/merge_requests`;
  const rare = { matches: RARE };
  return [
    { name: 'project', path: of },
    { name: 'project, open', path: `${of}?state=opened` },
    { name: 'project, open, by update', path: `${of}?state=opened&order_by=updated_at` },
    { name: 'project, page 50', path: `${of}?page=50` },
    { name: 'project, by title', path: `${of}?order_by=title&sort=asc` },
    { name: 'project, by time of merging', path: `${of}?order_by=merged_at` },
    { name: 'project, by due date', path: `${of}?order_by=milestone_due` },
    { name: 'project, by label priority', path: `${of}?order_by=label_priority` },
    { name: 'project, by priority, page 3', path: `${of}?order_by=priority&page=3` },
    { name: 'project, by votes', path: `${of}?order_by=popularity` },
    { name: 'project, by votes, least first', path: `${of}?order_by=popularity&sort=asc` },
    { name: 'project, label, common', path: `${of}?labels=common` },
    { name: 'project, label, rare', path: `${of}?labels=rare`, ...rare },
    { name: 'project, not label', path: `${of}?not[labels]=common` },
    { name: 'project, milestone', path: `${of}?milestone=rare`, ...rare },
    { name: 'project, author, rare', path: `${of}?author_username=${FEW}`, ...rare },
    { name: 'project, author, common', path: `${of}?author_username=bench-7` },
    { name: 'project, search, rare', path: `${of}?search=quokka`, ...rare },
    { name: 'project, search, common', path: `${of}?search=somebody` },
    { name: 'project, target branch', path: `${of}?target_branch=rare`, ...rare },
    { name: 'project, source branch', path: `${of}?source_branch=topic-${total - (total % 2)}`, matches: 1 },
    { name: 'small project', path: `/projects/${project + 7}/merge_requests` },
    { name: 'group', path: '/groups/bench/merge_requests?state=opened' },
    { name: 'group, small', path: `/groups/${encodeURIComponent('bench/team-3')}/merge_requests` },
    { name: 'group, label, rare', path: '/groups/bench/merge_requests?labels=rare', ...rare },
    { name: 'created by me', path: '/merge_requests', ...rare },
    { name: 'assigned to me', path: '/merge_requests?scope=assigned_to_me', ...rare },
    { name: 'for me to review', path: '/merge_requests?scope=reviews_for_me', ...rare },
    { name: 'all', path: '/merge_requests?scope=all' },
    { name: 'all, open', path: '/merge_requests?scope=all&state=opened' },
    { name: 'all, search, rare', path: '/merge_requests?scope=all&search=quokka', ...rare },
    { name: 'all, anonymous', path: '/merge_requests?scope=all&order_by=updated_at', anonymous: true },
    {
      name: 'GraphQL, project, open',
      path: {
        query: `{ project(fullPath: "bench/team-1/project-1") { mergeRequests(state: opened, first: 20) { count nodes { iid title author { username } } pageInfo { endCursor } } } }`,
      },
    },
  ];
};
