import { sql, type Updateable } from 'kysely';
import { nextIid } from '#domains/projects/insert.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import type { Tx } from '#platform/context.ts';
import type { Deployments, Environments } from '#platform/db/tables.ts';
import type { EventDefinition } from '#platform/events.ts';
import { deploymentsByIds } from './deployments.ts';
import {
  type DeploymentPayload,
  deploymentCreated,
  deploymentUpdated,
  type EnvironmentPayload,
  environmentCreated,
  environmentUpdated,
} from './events.ts';
import { linkMergeRequests } from './merge-requests.ts';
import {
  type DeploymentRow,
  type DeploymentStatus,
  type EnvironmentRow,
  guessTier,
  isFinished,
  type NewEnvironment,
  slugOf,
} from './model.ts';
import { environmentsByIds } from './queries.ts';

// Changes of rows with their events. The callers check permissions and attributes.

/** Returns the environment of this name, which is created if there is none. */
export const ensureEnvironment = async (
  tx: Tx,
  project: ProjectRow,
  { name, tier, ...rest }: NewEnvironment,
): Promise<{ readonly row: EnvironmentRow; readonly isNew: boolean }> => {
  const made = await tx.db
    .insertInto('environments')
    .values({ ...rest, project_id: project.id, name, slug: slugOf(name), tier: tier ?? guessTier(name) })
    .onConflict((clash) => clash.columns(['project_id', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst();
  const { id } =
    made ??
    (await tx.db
      .selectFrom('environments')
      .select('id')
      .where('project_id', '=', project.id)
      .where('name', '=', name)
      .executeTakeFirstOrThrow());
  const row = await environmentIn(tx, id);
  if (made) emitEnvironment(tx, project, environmentCreated, row);
  return { row, isNew: made !== undefined };
};

/** Changes the row, if anything differs. Undefined leaves a column as it is. Returns the row as it is then. */
export const changeEnvironment = async (
  tx: Tx,
  project: ProjectRow,
  before: EnvironmentRow,
  changes: Updateable<Environments>,
): Promise<EnvironmentRow> => {
  const differs = Object.entries(changes).some(
    ([name, value]) => value !== undefined && Reflect.get(before, name) !== value,
  );
  if (!differs) return before;
  await tx.db
    .updateTable('environments')
    .set({ ...changes, updated_at: sql`now()` })
    .where('id', '=', before.id)
    .execute();
  const row = await environmentIn(tx, before.id);
  emitEnvironment(tx, project, environmentUpdated, row);
  return row;
};

const environmentIn = async (tx: Tx, id: number): Promise<EnvironmentRow> => {
  const row = (await environmentsByIds(tx, [id])).get(id);
  if (!row) throw new Error(`the environment ${id} is gone`);
  return row;
};

export const emitEnvironment = (
  tx: Tx,
  project: ProjectRow,
  definition: EventDefinition<EnvironmentPayload>,
  row: EnvironmentRow,
): void =>
  tx.emit(definition, {
    ...projectScope(project),
    subject: { type: 'Environment', id: row.id },
    payload: payloadOf(row),
  });

const payloadOf = ({
  id,
  project_id,
  name,
  state,
  tier,
  external_url,
}: EnvironmentRow): Required<EnvironmentPayload> => ({ id, project_id, name, state, tier, external_url });

export interface NewDeploymentRow {
  readonly ref: string;
  readonly tag: boolean;
  readonly sha: string;
  readonly status: DeploymentStatus;
  readonly user_id: number | null;
  readonly job_id: number | null;
  readonly on_stop: string | null;
}

export const insertDeployment = async (
  tx: Tx,
  project: ProjectRow,
  environment: EnvironmentRow,
  given: NewDeploymentRow,
): Promise<DeploymentRow> => {
  const { id } = await tx.db
    .insertInto('deployments')
    .values({
      ...given,
      project_id: project.id,
      environment_id: environment.id,
      iid: await nextIid(tx, project.id, 'deployment'),
      finished_at: isFinished(given) ? sql<string>`now()` : null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return emitDeploymentChange(tx, project, deploymentCreated, id);
};

/** Sets the status of a deployment, if it differs. */
export const setDeploymentStatus = async (
  tx: Tx,
  project: ProjectRow,
  before: DeploymentRow,
  status: DeploymentStatus,
): Promise<DeploymentRow> => {
  if (before.status === status) return before;
  const changes: Updateable<Deployments> = { status };
  await tx.db
    .updateTable('deployments')
    .set({ ...changes, finished_at: isFinished({ status }) ? sql`now()` : null, updated_at: sql`now()` })
    .where('id', '=', before.id)
    .execute();
  return emitDeploymentChange(tx, project, deploymentUpdated, before.id);
};

const emitDeploymentChange = async (
  tx: Tx,
  project: ProjectRow,
  definition: EventDefinition<DeploymentPayload>,
  id: number,
): Promise<DeploymentRow> => {
  const row = (await deploymentsByIds(tx, [id])).get(id);
  if (!row) throw new Error(`the deployment ${id} is gone`);
  await emitDeployment(tx, project, definition, row);
  if (row.status === 'success') tx.enqueue(linkMergeRequests, { id }, { key: `environments.link:${id}` });
  return row;
};

export const emitDeployment = async (
  tx: Tx,
  project: ProjectRow,
  definition: EventDefinition<DeploymentPayload>,
  row: DeploymentRow,
): Promise<void> => {
  const environment = await environmentIn(tx, row.environment_id);
  const { id, iid, project_id, environment_id, status, ref, tag, sha, user_id, job_id } = row;
  tx.emit(definition, {
    ...projectScope(project),
    subject: { type: 'Deployment', id },
    payload: {
      ...{ id, iid, project_id, environment_id, status, ref, tag, sha, user_id, job_id },
      environment: environment.name,
      environment_tier: environment.tier,
      environment_slug: environment.slug,
      environment_external_url: environment.external_url,
    },
  });
};
