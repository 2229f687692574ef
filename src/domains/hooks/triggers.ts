import type { ContainerKind } from '#domains/planning/container.ts';

/**
 * The closed list of triggers. The hook record, its inputs, the request headers and the docs derive from it. `header`
 * is sent as `X-Gitlab-Event`. `event` names the trigger in lists of deliveries (reference: webhooks §3).
 */
export const TRIGGERS = [
  {
    name: 'push_events',
    header: 'Push Hook',
    event: 'push_hooks',
    byDefault: true,
    says: 'A branch was created, moved or deleted.',
  },
  {
    name: 'tag_push_events',
    header: 'Tag Push Hook',
    event: 'tag_push_hooks',
    byDefault: false,
    says: 'A tag was created, moved or deleted.',
  },
  {
    name: 'issues_events',
    header: 'Issue Hook',
    event: 'issue_hooks',
    byDefault: false,
    says: 'An issue was opened, changed, closed or reopened.',
  },
  {
    name: 'confidential_issues_events',
    header: 'Confidential Issue Hook',
    event: 'confidential_issue_hooks',
    byDefault: false,
    says: 'A confidential issue was opened, changed, closed or reopened.',
  },
  {
    name: 'merge_requests_events',
    header: 'Merge Request Hook',
    event: 'merge_request_hooks',
    byDefault: false,
    says: 'A merge request was opened, changed, merged or closed.',
  },
  {
    name: 'note_events',
    header: 'Note Hook',
    event: 'note_hooks',
    byDefault: false,
    says: 'Somebody commented.',
  },
  {
    name: 'confidential_note_events',
    header: 'Confidential Note Hook',
    event: 'confidential_note_hooks',
    byDefault: false,
    says: 'Somebody commented on a confidential issue.',
  },
  {
    name: 'job_events',
    header: 'Job Hook',
    event: 'job_hooks',
    byDefault: false,
    says: 'The status of a job changed.',
  },
  {
    name: 'pipeline_events',
    header: 'Pipeline Hook',
    event: 'pipeline_hooks',
    byDefault: false,
    says: 'The status of a pipeline changed.',
  },
  {
    name: 'wiki_page_events',
    header: 'Wiki Page Hook',
    event: 'wiki_page_hooks',
    byDefault: false,
    says: 'A wiki page was created, changed or deleted.',
  },
  {
    name: 'deployment_events',
    header: 'Deployment Hook',
    event: 'deployment_hooks',
    byDefault: false,
    says: 'A deployment started or ended.',
  },
  {
    name: 'releases_events',
    header: 'Release Hook',
    event: 'release_hooks',
    byDefault: false,
    says: 'A release was created, changed or deleted.',
  },
  {
    name: 'subgroup_events',
    header: 'Subgroup Hook',
    event: 'subgroup_hooks',
    byDefault: false,
    groupsOnly: true,
    says: 'A subgroup was created or removed.',
  },
  {
    name: 'member_events',
    header: 'Member Hook',
    event: 'member_hooks',
    byDefault: false,
    groupsOnly: true,
    says: 'A member of the group was added, changed or removed.',
  },
  {
    name: 'repository_update_events',
    header: 'Repository Update Hook',
    event: 'repository_update_hooks',
    byDefault: false,
    says: 'Refs of a repository changed. Sent once for each push.',
  },
  {
    name: 'resource_access_token_events',
    header: 'Resource Access Token Hook',
    event: 'resource_access_token_hooks',
    byDefault: false,
    says: 'An access token is about to expire.',
  },
  {
    name: 'emoji_events',
    header: 'Emoji Hook',
    event: 'emoji_hooks',
    byDefault: false,
    says: 'An emoji was awarded or revoked.',
  },
  {
    name: 'feature_flag_events',
    header: 'Feature Flag Hook',
    event: 'feature_flag_hooks',
    byDefault: false,
    says: 'A feature flag was switched.',
  },
  {
    name: 'milestone_events',
    header: 'Milestone Hook',
    event: 'milestone_hooks',
    byDefault: false,
    says: 'A milestone was created, closed, reopened or deleted.',
  },
  {
    name: 'project_events',
    header: 'Project Hook',
    event: 'project_hooks',
    byDefault: false,
    groupsOnly: true,
    says: 'A project was created or removed.',
  },
  {
    name: 'vulnerability_events',
    header: 'Vulnerability Hook',
    event: 'vulnerability_hooks',
    byDefault: false,
    says: 'A vulnerability was found or changed.',
  },
  {
    name: 'error_tracking_events',
    header: 'Error Tracking Hook',
    event: 'error_tracking_hooks',
    byDefault: false,
    says: 'An error is new, occurred again after it was resolved, or was resolved.',
  },
] as const satisfies readonly TriggerInfo[];

interface TriggerInfo {
  readonly name: `${string}_events`;
  readonly header: `${string} Hook`;
  readonly event: `${string}_hooks`;
  /** Whether new hooks listen to it by default. */
  readonly byDefault: boolean;
  /** A project hook cannot listen to it. */
  readonly groupsOnly?: true;
  readonly says: string;
}

export type Trigger = (typeof TRIGGERS)[number]['name'];

/** The triggers that system hooks can listen to. */
export const SYSTEM_TOGGLES = [
  'push_events',
  'tag_push_events',
  'merge_requests_events',
  'repository_update_events',
] as const satisfies readonly Trigger[];

/** The triggers of all system hooks. Some of them are triggers of system hooks only. */
const SYSTEM_ALWAYS = [
  'project_events',
  'subgroup_events',
  'member_events',
  'group_events',
  'project_member_events',
  'user_events',
] as const;
const ofSystem: ReadonlySet<string> = new Set<string>(SYSTEM_ALWAYS);

/** A toggle for each trigger. */
export type Toggles = Readonly<Record<Trigger, boolean>>;

export const isTrigger = (name: string): name is Trigger => byName.has(name);

/** Returns whether hooks of any kind can listen to it, system hooks included. */
export const isFired = (name: string): boolean => byName.has(name) || ofSystem.has(name);

/** Returns the triggers that can be switched for a hook of a group, of a project, or of the instance. */
export const triggersFor = (kind: ContainerKind | 'instance'): readonly Trigger[] =>
  kind === 'instance'
    ? SYSTEM_TOGGLES
    : TRIGGERS.filter((info) => kind === 'group' || !('groupsOnly' in info)).map(({ name }) => name);

/** Returns the triggers that hooks of this kind listen to by default. */
export const alwaysFor = (kind: ContainerKind | 'instance'): readonly string[] =>
  kind === 'instance' ? SYSTEM_ALWAYS : [];

export const triggerInfo = (name: string): TriggerInfo | undefined => byName.get(name);

/** Returns the trigger with that name in either form, `push_events` or `push_hooks`, or null. */
export const triggerNamed = (name: string): Trigger | null =>
  TRIGGERS.find((info) => info.name === name || info.event === name)?.name ?? null;

/** Returns an object with an entry for each trigger, as in `eachTrigger(() => boolean().optional())`. */
export const eachTrigger = <T>(make: (info: (typeof TRIGGERS)[number]) => T): Record<Trigger, T> => {
  const entries: Partial<Record<Trigger, T>> = {};
  for (const info of TRIGGERS) entries[info.name] = make(info);
  if (!isWhole(entries)) throw new Error('a trigger is listed twice');
  return entries;
};

const isWhole = <T>(entries: Partial<Record<Trigger, T>>): entries is Record<Trigger, T> =>
  Object.keys(entries).length === TRIGGERS.length;

const byName = new Map<string, TriggerInfo>(TRIGGERS.map((info) => [info.name, info]));
