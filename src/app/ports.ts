import { globallyAllowedNetworks, labelsOpenTo } from '#domains/access/restrictions.ts';
import { readerOfArtifacts } from '#domains/artifacts/ci-files.ts';
import { isDependencyOf } from '#domains/artifacts/queries.ts';
import { artifactReader } from '#domains/ci/creation/artifact-files.ts';
import { dependsOn } from '#domains/ci/dependencies.ts';
import { describeMergeRequest } from '#domains/ci/hook-relatives.ts';
import { openLabels } from '#domains/external-authorization/labels.ts';
import { removeGroup } from '#domains/groups/deletion.ts';
import { afterProjectsMoved } from '#domains/groups/moving.ts';
import { replaceLabels } from '#domains/labels/moving.ts';
import { resolveReferences } from '#domains/markdown/html.ts';
import { endMemberships } from '#domains/members/commands.ts';
import { publishReview } from '#domains/merge-requests/approving.ts';
import { notifyBlockedByProjects } from '#domains/merge-requests/blocking/unblocking.ts';
import { branchesToCollaborateOn } from '#domains/merge-requests/collaboration.ts';
import { refreshThoseFrom } from '#domains/merge-requests/lost-sources.ts';
import { describeForHooks } from '#domains/merge-requests/pipelines/pipelines.ts';
import { handlePush } from '#domains/merge-requests/push-options.ts';
import { replaceMilestones } from '#domains/milestones/moving.ts';
import { publishDraftNotes } from '#domains/notes/drafts.ts';
import { getNoteable } from '#domains/notes/noteable.ts';
import { writeChangeNotes, writeHistoryNotes, writeSystemNotes } from '#domains/notes/system.ts';
import { removeApplicationsOf } from '#domains/oauth/ending.ts';
import { recordHistoryNotes } from '#domains/planning/history.ts';
import { recordChangeNotes, recordSystemNotes } from '#domains/planning/system-notes.ts';
import { beforeMergeRequestsAreDeleted, releaseProjects } from '#domains/projects/deletion.ts';
import { checkImportSource } from '#domains/projects/importing.ts';
import { commitReadme } from '#domains/projects/new-repository.ts';
import { resolve } from '#domains/references/resolve.ts';
import { collaborationBranches } from '#domains/repositories/collaboration.ts';
import { commitFirstReadme } from '#domains/repositories/first-commit.ts';
import { afterPush } from '#domains/repositories/push-options.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { endOtherSessions, endSessions } from '#domains/sign-in/sessions.ts';
import { checkImportUrl } from '#domains/transfers/import-by-url.ts';
import { endOtherSessionsOf, endSessionsOf } from '#domains/users/accounts/sessions.ts';
import {
  beforeProjectsAreDeleted,
  deleteApplicationsOf,
  removeGroups,
  removeMembershipsOf,
} from '#domains/users/removal.ts';
import type { Services } from '#platform/context.ts';

/** Connects the functions that domains need from domains above them, a line each. */
export const connectPorts = (services: Services): void => {
  labelsOpenTo.connect(services, openLabels);
  globallyAllowedNetworks.connect(services, async (ctx) => (await getSettings(ctx)).globally_allowed_ips);
  afterProjectsMoved.connect(services, async (tx, projects) => {
    await replaceLabels(tx, projects);
    await replaceMilestones(tx, projects);
  });
  beforeProjectsAreDeleted.connect(services, releaseProjects);
  beforeMergeRequestsAreDeleted.connect(services, async (tx, projectIds) => {
    await notifyBlockedByProjects(tx, projectIds);
    await refreshThoseFrom(tx, projectIds);
  });
  deleteApplicationsOf.connect(services, removeApplicationsOf);
  removeMembershipsOf.connect(services, endMemberships);
  removeGroups.connect(services, async (tx, ids) => {
    for (const id of ids) await removeGroup(tx, id);
  });
  endSessionsOf.connect(services, endSessions);
  endOtherSessionsOf.connect(services, endOtherSessions);
  checkImportSource.connect(services, checkImportUrl);
  artifactReader.connect(services, readerOfArtifacts);
  isDependencyOf.connect(services, dependsOn);
  describeMergeRequest.connect(services, describeForHooks);
  commitReadme.connect(services, commitFirstReadme);
  recordSystemNotes.connect(services, writeSystemNotes);
  recordChangeNotes.connect(services, writeChangeNotes);
  recordHistoryNotes.connect(services, writeHistoryNotes);
  afterPush.connect(services, handlePush);
  collaborationBranches.connect(services, branchesToCollaborateOn);
  resolveReferences.connect(services, resolve);
  publishReview.connect(services, async (ctx, project, { iid }) =>
    publishDraftNotes(ctx, await getNoteable(ctx, project, 'merge_request', iid)),
  );
};
