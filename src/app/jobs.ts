import { syncAll, syncGroup } from '#domains/directory/jobs.ts';
import { foldSizes, removeDue } from '#domains/groups/jobs.ts';
import { sweepDeliveries } from '#domains/hooks/jobs.ts';
import { tellOwners } from '#domains/hooks/owners.ts';
import { removeExpiredMembers } from '#domains/members/expiry.ts';
import { followBranch } from '#domains/merge-requests/followers.ts';
import { removeSourceBranch, settleMerges } from '#domains/merge-requests/merging.ts';
import { refreshMergeRequest, removeRefs } from '#domains/merge-requests/versions.ts';
import { sweepOAuth } from '#domains/oauth/jobs.ts';
import { removeDue as removeDueProjects, removeUnknownRepositories } from '#domains/projects/jobs.ts';
import {
  deleteMergedBranches,
  detectLanguages,
  detectMissingLanguages,
  forgetFetches,
  packRepository,
  refreshStatistics,
  settlePushes,
} from '#domains/repositories/jobs.ts';
import { sweepSamlRequests } from '#domains/saml/jobs.ts';
import { tellOfExpiringTokens } from '#domains/service-accounts/expiring.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { sweepSessions } from '#domains/sign-in/jobs.ts';
import { mailExpiring } from '#domains/tokens/expiring.ts';
import { moveProjects } from '#domains/topics/moves.ts';
import { syncFork } from '#domains/transfers/fork-sync.ts';
import {
  endAbandoned,
  exportProject,
  importByUrl,
  importProject,
  removeExpired,
  removeFailedReplacements,
} from '#domains/transfers/jobs.ts';
import { dropUnclaimed, removeFolder } from '#domains/uploads/jobs.ts';
import { dropUnclaimedAvatar } from '#domains/users/avatar.ts';
import { deactivateDormantUsers } from '#domains/users/jobs.ts';
import { answerMailRequest } from '#domains/users/mail-requests.ts';
import { sweepMailTokens } from '#domains/users/mail-tokens.ts';
import { definePruneEvents } from '#platform/event-log/prune.ts';
import { pruneJobs } from '#platform/job-runner/prune.ts';
import { type AnyJobDefinition, runnable } from '#platform/jobs.ts';
import { defineMailDelivery } from '#platform/mail.ts';
import { sweepRateCounts } from '#platform/rate-limit.ts';
import { removeFiles } from '#platform/remove-files.ts';
import { sweepStorage } from './housekeeping.ts';

/** Every job, a line per domain. */
export const jobs: readonly AnyJobDefinition[] = [
  runnable(definePruneEvents(async (ctx) => (await getSettings(ctx)).event_retention_days)),
  runnable(pruneJobs),
  runnable(sweepStorage),
  runnable(sweepRateCounts),
  runnable(sweepSessions),
  runnable(removeFiles),
  runnable(dropUnclaimedAvatar),
  runnable(defineMailDelivery(async (ctx) => (await getSettings(ctx)).silent_mode_enabled)),
  runnable(deactivateDormantUsers),
  runnable(answerMailRequest),
  runnable(sweepMailTokens),
  runnable(foldSizes),
  runnable(removeDue),
  runnable(removeDueProjects),
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
  runnable(followBranch),
  runnable(refreshMergeRequest),
  runnable(removeRefs),
  runnable(settleMerges),
  runnable(removeSourceBranch),
  runnable(mailExpiring),
  runnable(tellOfExpiringTokens),
  runnable(dropUnclaimed),
  runnable(removeFolder),
  runnable(sweepDeliveries),
  runnable(tellOwners),
  runnable(sweepOAuth),
  runnable(syncGroup),
  runnable(syncAll),
  runnable(sweepSamlRequests),
  runnable(exportProject),
  runnable(importProject),
  runnable(importByUrl),
  runnable(syncFork),
  runnable(endAbandoned),
  runnable(removeExpired),
  runnable(removeFailedReplacements),
];
