import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { FEATURE_LEVELS } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import { can, canRead, type JudgedProject, type ProjectAbility } from '#domains/projects/policy.ts';
import { type Actor, anonymous } from '#platform/context.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

const ABILITIES = [
  'read_project',
  'read_code',
  'read_issue',
  'read_label',
  'read_merge_request',
  'read_pipeline',
  'read_release',
  'read_protected_branch',
] as const satisfies readonly ProjectAbility[];

const each = <T, U>(values: readonly T[], make: (value: T) => readonly U[]): U[] => values.flatMap(make);

/** All combinations of visibility, feature levels and role. */
const projects: readonly JudgedProject[] = each([0, 10, 20], (visibility_level) =>
  each(FEATURE_LEVELS, (issues_access_level) =>
    each(FEATURE_LEVELS, (repository_access_level) =>
      each(FEATURE_LEVELS, (merge_requests_access_level) =>
        each(FEATURE_LEVELS, (builds_access_level) =>
          each([true, false], (public_jobs) =>
            [0, 10, 15, 20, 30].map((access_level) => ({
              visibility_level,
              issues_access_level,
              repository_access_level,
              merge_requests_access_level,
              builds_access_level,
              public_jobs,
              access_level,
              archived: false,
              marked_for_deletion_on: null,
              snippets_access_level: 'enabled' as const,
              wiki_access_level: 'enabled' as const,
              forking_access_level: 'enabled' as const,
            })),
          ),
        ),
      ),
    ),
  ),
);

const member: Actor = { ...anonymous, userId: 1 };
const ACTORS: readonly (readonly [string, Actor])[] = [
  ['somebody', member],
  ['an external user', { ...member, isExternal: true }],
  ['nobody', anonymous],
];

it.each(ACTORS)('SQL and TypeScript agree on the abilities to read, for %s', async (_who, actor) => {
  const asking = {
    level: sql<number>`p.access_level`,
    openFrom: sql.lit(openFrom(actor)),
  };
  const columns = ABILITIES.map((ability) => canRead(ability, asking, 'p'));
  const { rows } = await sql<{ answers: boolean[] }>`
    select array[${sql.join(columns)}] as answers
    from jsonb_to_recordset(${JSON.stringify(projects.map((project, n) => ({ n, ...project })))}::jsonb) as p (n int,
      visibility_level int, issues_access_level text, repository_access_level text, merge_requests_access_level text,
      builds_access_level text, public_jobs boolean, access_level int)
    order by n`.execute(app().hub.services.db);
  const different = projects.flatMap((project, n) =>
    ABILITIES.filter((ability, i) => rows[n]?.answers[i] !== can({ actor }, project, ability)).map((ability) => ({
      ability,
      project,
    })),
  );
  expect(rows).toHaveLength(projects.length);
  expect(different.slice(0, 5)).toEqual([]);
});
