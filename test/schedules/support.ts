import type { TestApp, TestUser } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestProject } from '../support/factories.ts';

export interface CiScene {
  readonly project: TestProject;
  readonly url: string;
  readonly branch: string;
  readonly ownerId: number;
  readonly owner: Client;
  readonly developer: Client;
  readonly developerUser: TestUser;
  readonly reporter: Client;
  readonly stranger: Client;
}

/** Creates a private project with a CI file, and its members. Developers may push to all branches. */
export const ciScene = async (app: TestApp, file: string): Promise<CiScene> => {
  const user = await app.make.user();
  const owner = app.as(user);
  const project = await app.make.project({ visibility: 'private', initialize_with_readme: true }, user);
  const url = `/projects/${project.id}`;
  const branch: string = (await owner.get(`${url}/repository/branches`)).body[0].name;
  await owner.delete(`${url}/protected_branches/${branch}`);
  const member = async (level: number) => {
    const person = await app.make.user();
    await app.make.projectMember(project, person, level);
    return person;
  };
  const developerUser = await member(30);
  const commit = { branch, content: file, commit_message: 'Add the CI file [skip ci]' };
  const { status } = await owner.post(`${url}/repository/files/.gitlab-ci.yml`, commit);
  if (status !== 201) throw new Error(`the CI file was not committed: ${status}`);
  return {
    ...{ project, url, branch, owner, developerUser, ownerId: user.id },
    developer: app.as(developerUser),
    reporter: app.as(await member(20)),
    stranger: app.as(await app.make.user()),
  };
};
