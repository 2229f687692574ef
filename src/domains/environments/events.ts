import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { deploymentEventBody } from './webhook.ts';

/** The environment at the time of the event. */
const environment = z.object({
  id: z.number(),
  project_id: z.number(),
  name: z.string(),
  state: z.string(),
  tier: z.string(),
  external_url: z.string().nullable(),
});

export type EnvironmentPayload = z.output<typeof environment>;

const part = { ability: 'read_pipeline' } as const;

export const environmentCreated = defineEvent('environment.created', environment, { part });
/** Also emitted when its state changes. */
export const environmentUpdated = defineEvent('environment.updated', environment, { part });
export const environmentDeleted = defineEvent('environment.deleted', environment, { part });

/** The deployment and its environment at the time of the event. */
const deployment = z.object({
  id: z.number(),
  iid: z.number(),
  project_id: z.number(),
  environment_id: z.number(),
  environment: z.string(),
  environment_tier: z.string(),
  environment_slug: z.string(),
  environment_external_url: z.string().nullable(),
  status: z.string(),
  ref: z.string(),
  tag: z.boolean(),
  sha: z.string(),
  user_id: z.number().nullable(),
  job_id: z.number().nullable(),
});
export type DeploymentPayload = z.output<typeof deployment>;

const HOOKED: ReadonlySet<string> = new Set(['running', 'success', 'failed', 'canceled']);

const hook = {
  trigger: ({ status }: DeploymentPayload) => (HOOKED.has(status) ? 'deployment_events' : null),
  body: deploymentEventBody,
  part,
};

export const deploymentCreated = defineEvent('deployment.created', deployment, hook);
/** The status of the deployment changed. */
export const deploymentUpdated = defineEvent('deployment.updated', deployment, hook);
export const deploymentDeleted = defineEvent('deployment.deleted', deployment, { part });
