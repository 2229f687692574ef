import type { TestApp } from '../support/app.ts';

export type Item = readonly [header: Record<string, unknown>, payload: unknown];

/** Writes an envelope. Payloads that are no texts become JSON. */
export const envelope = (header: Record<string, unknown>, ...items: readonly Item[]): string =>
  [
    JSON.stringify(header),
    ...items.flatMap(([itemHeader, payload]) => [
      JSON.stringify(itemHeader),
      typeof payload === 'string' ? payload : JSON.stringify(payload),
    ]),
  ].join('\n');

let count = 0;
export const newEventId = (): string => (++count).toString(16).padStart(8, '0').padEnd(32, 'e');

/** An envelope with one event. */
export const eventEnvelope = (event: Record<string, unknown> = {}, id = newEventId()): string =>
  envelope({ event_id: id }, [{ type: 'event' }, { event_id: id, message: 'it broke', ...event }]);

export interface Sender {
  readonly projectId: number;
  readonly key: { readonly id: number; readonly public_key: string; readonly sentry_dsn: string };
  /** Posts to the endpoint with the key in the query, as browsers do. */
  send(body: string | Buffer, headers?: Record<string, string>): Promise<Response>;
  post(path: string, body: string | Buffer, headers?: Record<string, string>): Promise<Response>;
}

export const COLLECTOR = '/api/v4/error_tracking/collector/api';

/** A project with a client key, and ways to send to it. */
export const makeSender = async (app: TestApp): Promise<Sender> => {
  const owner = await app.make.user();
  const project = await app.make.project({ visibility: 'private' }, owner);
  const { body: key } = await app.as(owner).post(`/projects/${project.id}/error_tracking/client_keys`);
  const post = (path: string, body: string | Buffer, headers: Record<string, string> = {}) =>
    fetch(`${app.url}${path}`, {
      method: 'POST',
      headers,
      body: typeof body === 'string' ? body : new Uint8Array(body),
      redirect: 'manual',
    });
  return {
    projectId: project.id,
    key,
    post,
    send: (body, headers) =>
      post(`${COLLECTOR}/${project.id}/envelope/?sentry_key=${key.public_key}&sentry_version=7`, body, headers),
  };
};

/** The digested events of a project, the oldest first. */
export const eventsOf = async (app: TestApp, projectId: number): Promise<{ event_id: string; level: string }[]> => {
  await app.settle();
  const { rows } = await app.hub.services.pool.query(
    `select replace(event_id::text, '-', '') as event_id, level, tags, release, environment
     from error_events where project_id = $1 order by received_at, event_id`,
    [projectId],
  );
  return rows;
};
