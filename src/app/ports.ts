import { removeApplicationsOf } from '#domains/oauth/ending.ts';
import { releaseProjects } from '#domains/projects/deletion.ts';
import { checkImportSource } from '#domains/projects/importing.ts';
import { commitReadme } from '#domains/projects/new-repository.ts';
import { commitFirstReadme } from '#domains/repositories/first-commit.ts';
import { endOtherSessions, endSessions } from '#domains/sign-in/sessions.ts';
import { checkImportUrl } from '#domains/transfers/import-by-url.ts';
import { beforeProjectsAreDeleted, deleteApplicationsOf } from '#domains/users/removal.ts';
import { endOtherSessionsOf, endSessionsOf } from '#domains/users/sessions.ts';
import type { Services } from '#platform/context.ts';

/** Connects the functions that domains need from domains above them, a line each. */
export const connectPorts = (services: Services): void => {
  beforeProjectsAreDeleted.connect(services, releaseProjects);
  deleteApplicationsOf.connect(services, removeApplicationsOf);
  endSessionsOf.connect(services, endSessions);
  endOtherSessionsOf.connect(services, endOtherSessions);
  checkImportSource.connect(services, checkImportUrl);
  commitReadme.connect(services, commitFirstReadme);
};
