import { expireArtifacts, expireProject } from '#domains/artifacts/jobs.ts';
import { unlockArtifacts } from '#domains/artifacts/locking.ts';
import { cancelChild, followDownstream, startBridge } from '#domains/ci/bridges.ts';
import { cancelRedundant } from '#domains/ci/creation/auto-cancel.ts';
import { createForPush } from '#domains/ci/creation/pushes.ts';
import { createRequestedPipeline, forgetCreationRequests } from '#domains/ci/creation/requests.ts';
import { assignResource, dropPipelineRefs, endBridge, startDelayedJob } from '#domains/ci/jobs.ts';
import { sweepJobs } from '#domains/ci/processing/sweeps.ts';
import { processLater } from '#domains/ci/processing.ts';
import { pruneUses } from '#domains/deprecations/jobs.ts';
import { syncAll, syncGroup } from '#domains/directory/jobs.ts';
import { stopDueEnvironments } from '#domains/environments/jobs.ts';
import { linkMergeRequests } from '#domains/environments/merge-requests.ts';
import { stopEnded } from '#domains/environments/stopping.ts';
import { cleanIngest, digestEnvelopes } from '#domains/error-ingest/jobs.ts';
import { announceCounts } from '#domains/error-tracking/digest/announce.ts';
import { pruneErrors } from '#domains/error-tracking/digest/retention.ts';
import { deleteEvents } from '#domains/error-tracking/errors/deletion.ts';
import { moveEvents } from '#domains/error-tracking/errors/merging.ts';
import { mailAboutErrors } from '#domains/error-tracking/errors/notifications.ts';
import { foldSizes, removeDue } from '#domains/groups/jobs.ts';
import { mailOwners } from '#domains/hooks/delivery/owner-mails.ts';
import { sweepDeliveries } from '#domains/hooks/jobs.ts';
import { removeExpiredMembers } from '#domains/members/expiry.ts';
import { emitUnblocked } from '#domains/merge-requests/blocking/unblocking.ts';
import { compareClosed } from '#domains/merge-requests/closed-approvals.ts';
import { followBranch } from '#domains/merge-requests/followers.ts';
import { closeIssues, closeIssuesOfPush } from '#domains/merge-requests/merging/closing.ts';
import { autoMerge, sweepAutoMerges } from '#domains/merge-requests/merging/follow-auto-merges.ts';
import { removeSourceBranch, settleMerges } from '#domains/merge-requests/merging/landing.ts';
import { recheckTarget } from '#domains/merge-requests/merging/rechecking.ts';
import { createPipelineForTarget } from '#domains/merge-requests/pipelines/of-target.ts';
import { createPipelineOfHead } from '#domains/merge-requests/pipelines/pipelines.ts';
import { rebaseMergeRequest } from '#domains/merge-requests/rebasing.ts';
import { removeMergeRef, removeRefs } from '#domains/merge-requests/refs.ts';
import { closeUnrelated } from '#domains/merge-requests/unrelated.ts';
import { dropFiles } from '#domains/merge-requests/versions/merged.ts';
import { refreshMergeRequest } from '#domains/merge-requests/versions/refresh.ts';
import { followVersion } from '#domains/notes/following.ts';
import { sweepOAuth } from '#domains/oauth/jobs.ts';
import {
  deleteInactiveProjects,
  digestOldRunnersTokens,
  removeDue as removeDueProjects,
  removeUnknownRepositories,
} from '#domains/projects/jobs.ts';
import { forgetFetches } from '#domains/repositories/fetches.ts';
import { detectLanguages, detectMissingLanguages } from '#domains/repositories/languages.ts';
import { deleteMergedBranches } from '#domains/repositories/merged-branches.ts';
import { packRepository } from '#domains/repositories/packing.ts';
import { settleFirstPush, settlePushes } from '#domains/repositories/pushes.ts';
import { refreshStatistics } from '#domains/repositories/upkeep.ts';
import { sweepSamlRequests } from '#domains/saml/jobs.ts';
import { findDueSchedules, runSchedule } from '#domains/schedules/jobs.ts';
import { emitExpiringTokens } from '#domains/service-accounts/expiring.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { sweepSessions } from '#domains/sign-in/jobs.ts';
import { mailExpiring } from '#domains/tokens/expiring.ts';
import { moveProjects } from '#domains/topics/moves.ts';
import { archiveTraces, pruneTraces } from '#domains/traces/jobs.ts';
import { readImported } from '#domains/tracking/imported.ts';
import { readReferences } from '#domains/tracking/references.ts';
import { syncFork } from '#domains/transfers/fork-sync.ts';
import {
  endAbandoned,
  exportProject,
  importByUrl,
  importProject,
  importSingleRelation,
  removeExpired,
  removeFailedReplacements,
} from '#domains/transfers/jobs.ts';
import { dropUnclaimed, removeFolder } from '#domains/uploads/jobs.ts';
import { deleteUnconfirmedUsers } from '#domains/users/accounts/unconfirmed.ts';
import { dropUnclaimedAvatar } from '#domains/users/avatar.ts';
import { sweepAddresses } from '#domains/users/client-addresses.ts';
import { deactivateDormantUsers } from '#domains/users/jobs.ts';
import { answerMailRequest } from '#domains/users/mail-requests.ts';
import { sweepMailTokens } from '#domains/users/mail-tokens.ts';
import { mailSignUp, sweepSignUps } from '#domains/users/mails/sign-up.ts';
import { sweepRateCounts } from '#platform/caller/rate-limit.ts';
import { definePruneEvents } from '#platform/event-log/prune.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import { pruneJobs } from '#platform/job-runner/prune.ts';
import { type AnyJobDefinition, runnable } from '#platform/jobs.ts';
import { defineMailDelivery } from '#platform/mail/mail.ts';
import { removeDueFiles } from '#platform/storage/removals.ts';
import { sweepStorage } from './housekeeping.ts';

/** Every job. Crons run at their times, the others when they are enqueued. */
export const jobs: readonly AnyJobDefinition[] = [
  runnable(definePruneEvents(async (ctx) => (await getSettings(ctx)).event_retention_days)),
  runnable(pruneJobs),
  runnable(sweepStorage),
  runnable(sweepRateCounts),
  runnable(sweepSessions),
  runnable(removeFiles),
  runnable(removeDueFiles),
  runnable(expireArtifacts),
  runnable(expireProject),
  runnable(unlockArtifacts),
  runnable(dropUnclaimedAvatar),
  runnable(defineMailDelivery(async (ctx) => (await getSettings(ctx)).silent_mode_enabled)),
  runnable(deactivateDormantUsers),
  runnable(sweepAddresses),
  runnable(deleteUnconfirmedUsers),
  runnable(mailSignUp),
  runnable(sweepSignUps),
  runnable(answerMailRequest),
  runnable(sweepMailTokens),
  runnable(foldSizes),
  runnable(removeDue),
  runnable(removeDueProjects),
  runnable(deleteInactiveProjects),
  runnable(digestOldRunnersTokens),
  runnable(removeUnknownRepositories),
  runnable(moveProjects),
  runnable(removeExpiredMembers),
  runnable(refreshStatistics),
  runnable(detectLanguages),
  runnable(detectMissingLanguages),
  runnable(forgetFetches),
  runnable(packRepository),
  runnable(deleteMergedBranches),
  runnable(settlePushes),
  runnable(settleFirstPush),
  runnable(followBranch),
  runnable(compareClosed),
  runnable(recheckTarget),
  runnable(refreshMergeRequest),
  runnable(emitUnblocked),
  runnable(createPipelineOfHead),
  runnable(createPipelineForTarget),
  runnable(stopEnded),
  runnable(removeRefs),
  runnable(removeMergeRef),
  runnable(dropFiles),
  runnable(readReferences),
  runnable(readImported),
  runnable(settleMerges),
  runnable(removeSourceBranch),
  runnable(followVersion),
  runnable(autoMerge),
  runnable(sweepAutoMerges),
  runnable(rebaseMergeRequest),
  runnable(closeIssues),
  runnable(closeIssuesOfPush),
  runnable(closeUnrelated),
  runnable(linkMergeRequests),
  runnable(stopDueEnvironments),
  runnable(findDueSchedules),
  runnable(runSchedule),
  runnable(mailExpiring),
  runnable(emitExpiringTokens),
  runnable(dropUnclaimed),
  runnable(removeFolder),
  runnable(announceCounts),
  runnable(pruneErrors),
  runnable(mailAboutErrors),
  runnable(deleteEvents),
  runnable(moveEvents),
  runnable(sweepDeliveries),
  runnable(mailOwners),
  runnable(sweepOAuth),
  runnable(processLater),
  runnable(archiveTraces),
  runnable(pruneTraces),
  runnable(startDelayedJob),
  runnable(assignResource),
  runnable(endBridge),
  runnable(dropPipelineRefs),
  runnable(cancelRedundant),
  runnable(startBridge),
  runnable(createRequestedPipeline),
  runnable(forgetCreationRequests),
  runnable(followDownstream),
  runnable(cancelChild),
  runnable(createForPush),
  runnable(sweepJobs),
  runnable(digestEnvelopes),
  runnable(cleanIngest),
  runnable(syncGroup),
  runnable(syncAll),
  runnable(pruneUses),
  runnable(sweepSamlRequests),
  runnable(exportProject),
  runnable(importProject),
  runnable(importByUrl),
  runnable(importSingleRelation),
  runnable(syncFork),
  runnable(endAbandoned),
  runnable(removeExpired),
  runnable(removeFailedReplacements),
];
