import type { TestApp } from '../support/app.ts';

/** Creates a private project in a group, with one user per role. */
export const makeScene = async ({ make, as }: TestApp, attributes: Record<string, unknown> = {}) => {
  const owner = await make.user();
  const group = await make.group({ visibility: 'public' }, owner);
  const project = await make.project({ namespace_id: group.id, visibility: 'private', ...attributes }, owner);
  const people = {
    owner,
    maintainer: await make.user(),
    reporter: await make.user(),
    planner: await make.user(),
    guest: await make.user(),
    stranger: await make.user(),
  };
  await make.projectMember(project, people.maintainer, 40);
  await make.projectMember(project, people.reporter, 20);
  await make.projectMember(project, people.planner, 15);
  await make.projectMember(project, people.guest, 10);
  return {
    group,
    project,
    people,
    path: `/projects/${project.id}`,
    owner: as(people.owner),
    maintainer: as(people.maintainer),
    reporter: as(people.reporter),
    planner: as(people.planner),
    guest: as(people.guest),
    stranger: as(people.stranger),
  };
};

/** Returns the number of statements the hub runs for `run`: the least of three runs, since other work may add some. */
export const countStatements = async (app: TestApp, run: () => Promise<unknown>): Promise<number> => {
  const { pool } = app.hub.services;
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 3; i++) {
    await app.settle();
    let count = 0;
    const onAcquire = () => void count++;
    pool.on('acquire', onAcquire);
    await run();
    pool.off('acquire', onAcquire);
    least = Math.min(least, count);
  }
  return least;
};
