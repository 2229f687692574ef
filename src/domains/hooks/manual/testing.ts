import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { momentOf } from '#domains/events/visibility.ts';
import type { ContainerAddress, ContainerOrInstance } from '#domains/planning/container.ts';
import type { Context } from '#platform/context.ts';
import { unprocessable } from '#platform/errors.ts';
import { newChainId } from '#platform/event-log/event-chain.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { ensureDeliveryPartitions } from '../delivery/partitions.ts';
import { TEST_KIND, type TestTrigger } from '../model.ts';
import { getHookContainer, getHookOwner, hookScope } from '../policy.ts';
import { getHook, type HookRow } from '../queries.ts';
import { jobSample, pipelineSample } from '../samples/ci.ts';
import { releaseSample, tokenSample, wikiSample } from '../samples/others.ts';
import { emojiSample, issueSample, mergeRequestSample, noteSample } from '../samples/planning.ts';
import { pushSample, samplePush, sampleTag, tagSample } from '../samples/pushes.ts';
import { type Scene, sceneOf } from '../samples/scene.ts';
import { limitManual, recordNow, sendNow } from './sending.ts';

const SAMPLES: Readonly<Record<TestTrigger, (scene: Scene) => Promise<Record<string, unknown> | null>>> = {
  push_events: async (scene) => (await pushSample(scene)) ?? samplePush(scene),
  tag_push_events: async (scene) => (await tagSample(scene)) ?? sampleTag(scene),
  issues_events: (scene) => issueSample(scene, false),
  confidential_issues_events: (scene) => issueSample(scene, true),
  note_events: noteSample,
  merge_requests_events: mergeRequestSample,
  job_events: jobSample,
  pipeline_events: pipelineSample,
  wiki_page_events: wikiSample,
  releases_events: releaseSample,
  emoji_events: emojiSample,
  resource_access_token_events: tokenSample,
};

/**
 * Sends a test event to the hook, built from the newest data of its group or project, or from a sample if there is none
 * (reference: webhooks §4). Sends at once, even if the hook is disabled, and does not retry. The attempt appears among
 * the hook's deliveries, and a success enables the hook. Returns the id of the attempt.
 *
 * @throws `not_found`, `forbidden`, `too_many_requests`, `unprocessable` in silent mode or if the receiver does not
 * answer with success
 */
export const testHook = async (
  ctx: Context,
  at: ContainerAddress,
  id: number,
  trigger: TestTrigger,
): Promise<number> => {
  const container = await getHookContainer(ctx, at);
  const hook = await getHook(ctx, container, id);
  await limitManual(ctx, container, 'test');
  return sendTest(ctx, container, hook, trigger, await SAMPLES[trigger](await sceneOf(ctx, container)));
};

/** Sends a sample to a system hook, and returns it. @throws as `testHook` */
export const testSystemHook = async (ctx: Context, id: number): Promise<Record<string, unknown>> => {
  const owner = await getHookOwner(ctx, { kind: 'instance' });
  const hook = await getHook(ctx, owner, id);
  await limitManual(ctx, owner, 'test');
  await sendTest(ctx, owner, hook, 'project_events', SYSTEM_SAMPLE);
  return SYSTEM_SAMPLE;
};

const SYSTEM_SAMPLE = {
  event_name: 'project_create',
  name: 'Ruby',
  path: 'ruby',
  project_id: 1,
  owner_name: 'Someone',
  owner_email: 'example@example.com',
};

const sendTest = async (
  ctx: Context,
  container: ContainerOrInstance,
  hook: HookRow,
  trigger: string,
  sample: Record<string, unknown> | null,
): Promise<number> => {
  const body = JSON.stringify(sample);
  const deliveryId = randomUUID();
  const chainId = newChainId(ctx.services.secretKey);
  const sent = { id: deliveryId, attempt: 1, trigger, chainId, body: Buffer.from(body) };
  const outcome = await sendNow(ctx, hook, sent);
  const scope = { project_id: null, ...hookScope(container, hook.id) };
  const event = { ...scope, kind: TEST_KIND, subject_type: scope.subject.type, visibility_level: null, user_ids: [] };
  await ensureDeliveryPartitions(ctx);
  const attemptId = await ctx.transaction(async (tx) => {
    const payload = await tx.db
      .insertInto('webhook_payloads')
      .values({ kind: TEST_KIND, trigger, chain_id: chainId, body, moment: toJsonb(momentOf(event, null)) })
      .returning('id')
      .executeTakeFirstOrThrow();
    await tx.db
      .insertInto('webhook_deliveries')
      .values({
        id: deliveryId,
        webhook_id: hook.id,
        payload_id: payload.id,
        state: 'expired',
        finished_at: sql`now()`,
      })
      .execute();
    return recordNow(tx, container, { deliveryId, webhookId: hook.id, attempt: 1, trigger, outcome });
  });
  if (!outcome.delivered) throw unprocessable(outcome.error ?? 'The receiver did not accept it');
  return attemptId;
};
