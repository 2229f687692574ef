import { RE2JS } from 're2js';
import { type Caches, defineCache } from '#platform/cache.ts';
import type { Trigger } from './triggers.ts';

export const BRANCH_FILTER_STRATEGIES = ['wildcard', 'regex', 'all_branches'] as const;

export const ALERT_STATUSES = ['executable', 'temporarily_disabled', 'disabled'] as const;
export type AlertStatus = (typeof ALERT_STATUSES)[number];

export const DELIVERY_STATES = ['waiting', 'sending', 'held', 'delivered', 'expired', 'canceled', 'dropped'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** Returns whether a delivery in this state is still in the queue. */
export const isOpen = (state: DeliveryState): boolean => state === 'waiting' || state === 'sending' || state === 'held';

/** The most hooks that one group, one project or the instance may have. */
export const MAX_HOOKS = { group: 50, project: 100, instance: 100 } as const;
export const MAX_BODY_BYTES = 25 * 1024 * 1024;

interface Health {
  readonly disabled_permanently: boolean;
  readonly disabled_until: string | null;
}

/** A temporarily disabled hook stays so until a probe succeeds, even after `disabled_until`. */
export const alertStatus = ({ disabled_permanently, disabled_until }: Health): AlertStatus =>
  disabled_permanently ? 'disabled' : disabled_until === null ? 'executable' : 'temporarily_disabled';

interface BranchFilter {
  readonly branch_filter_strategy: string;
  readonly push_events_branch_filter: string | null;
}

/** Returns whether the hook wants pushes to the branch (reference: webhooks §2). */
export const wantsBranch = (
  services: { readonly caches: Caches },
  { branch_filter_strategy: strategy, push_events_branch_filter: filter }: BranchFilter,
  branch: string,
): boolean => {
  if (strategy === 'all_branches' || filter === null || filter === '') return true;
  return compiledFilter(services, strategy, filter).test(branch);
};

/** @throws if the filter is not a valid RE2 regular expression */
export const compileFilter = (strategy: string, filter: string): RE2JS =>
  strategy === 'regex'
    ? RE2JS.compile(filter)
    : RE2JS.compile(`^${filter.split('*').map(RE2JS.quote).join('.*')}$`, RE2JS.DOTALL);

const filters = defineCache<string, RE2JS>({ name: 'branch filters of hooks', limit: 1_000 });

const compiledFilter = (services: { readonly caches: Caches }, strategy: string, filter: string): RE2JS => {
  const cache = filters(services);
  const key = `${strategy}:${filter}`;
  const known = cache.get(key);
  if (known) return known;
  const compiled = compileFilter(strategy, filter);
  cache.set(key, compiled);
  return compiled;
};

const FIRST_RETRY_MS = 10_000;
const LAST_RETRY_MS = 12 * 3_600_000;

/**
 * Returns the delay in milliseconds before the retry after the nth failure: 10 s, 30 s, 90 s ... 12 h. Each delay
 * varies by up to a fifth, so that deliveries that failed together are not retried together. Fourteen attempts fill
 * three days.
 */
export const retryDelayMs = (failures: number): number =>
  Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 3 ** (failures - 1)) * (0.8 + 0.4 * Math.random());

/** A delivery expires after three days if it has had at least this many attempts. */
export const MIN_ATTEMPTS = 10;
export const RETRY_HOURS = 72;

/** The triggers that can be tested (specification 3 §4.5). */
export const TEST_TRIGGERS = [
  'push_events',
  'tag_push_events',
  'issues_events',
  'confidential_issues_events',
  'note_events',
  'merge_requests_events',
  'job_events',
  'pipeline_events',
  'wiki_page_events',
  'releases_events',
  'emoji_events',
  'resource_access_token_events',
] as const satisfies readonly Trigger[];
export type TestTrigger = (typeof TEST_TRIGGERS)[number];

/** The event kind of test deliveries. */
export const TEST_KIND = 'webhook.tested';

/** Values that a hook keeps by key: headers of its requests, and variables of its URL. */
export type ValueKind = 'header' | 'url_variable';
