import type { TestApp } from '../support/app.ts';

/** Creates a private project in a group, with one user per role. */
export const makeScene = async ({ make, as }: TestApp, attributes: Record<string, unknown> = {}) => {
  const [owner, maintainer, reporter, planner, guest, stranger] = await make.users(6);
  if (!(owner && maintainer && reporter && planner && guest && stranger)) throw new Error('there are too few users');
  const group = await make.group({ visibility: 'public' }, owner);
  const project = await make.project({ namespace_id: group.id, visibility: 'private', ...attributes }, owner);
  await make.projectMembers(project, [
    [maintainer, 40],
    [reporter, 20],
    [planner, 15],
    [guest, 10],
  ]);
  const people = { owner, maintainer, reporter, planner, guest, stranger };
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
