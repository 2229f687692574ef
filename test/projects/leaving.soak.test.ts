import { expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { encodeCursor } from '#platform/cursor.ts';
import type { EventRow } from '#platform/events.ts';
import { findEvents } from '../groups/find-events.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

const deletionsOf = async (projectId: number) =>
  (await findEvents(app(), 'Project', projectId)).filter(({ kind }) => kind === 'project.deleted');

const bodyOf = (event: EventRow | undefined) =>
  event && eventDefinitions.find(({ kind }) => kind === event.kind)?.body(app().context(), event);

it('emits one event for each project deleted with its group, and triggers the hooks of parent groups', async () => {
  const { make, as, root } = app();
  const owner = await make.user({ name: 'Olga' });
  const top = await make.group({}, owner);
  const child = await make.group({ parent_id: top.id }, owner);
  const grandchild = await make.group({ parent_id: child.id }, owner);
  const projects = [
    await make.project({ namespace_id: child.id }, owner),
    await make.project({ namespace_id: grandchild.id }, owner),
  ];
  const url = `${app().url}/-/liveness`;
  await as(root).put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  expect(await as(owner).post(`/groups/${top.id}/hooks`, { url, project_events: true })).toMatchObject({ status: 201 });
  // Delete one project at the same time. It must still be reported only once.
  await Promise.all([as(owner).delete(`/projects/${projects[0]?.id}`), as(owner).delete(`/groups/${child.id}`)]);
  for (const [n, project] of projects.entries()) {
    const events = await deletionsOf(project.id);
    expect(events).toHaveLength(1);
    const [event] = events;
    expect(event).toMatchObject({
      actor_id: owner.id,
      project_id: project.id,
      namespace_ids: [top.id, child.id, grandchild.id].slice(0, 2 + n),
    });
    expect(await bodyOf(event)).toEqual({
      event_name: 'project_destroy',
      created_at: expect.stringMatching(/^\S{10}T\S{8}\.\d{3}Z$/),
      updated_at: expect.stringMatching(/^\S{10}T\S{8}\.\d{3}Z$/),
      name: expect.any(String),
      path: project.path,
      path_with_namespace: project.path_with_namespace,
      project_id: project.id,
      project_namespace_id: [child.id, grandchild.id][n],
      owners: [{ name: 'Olga', email: '[REDACTED]' }],
      project_visibility: 'private',
    });
  }
  const emitted = await app()
    .hub.services.db.selectFrom('webhook_payloads')
    .select('body')
    .where('kind', '=', 'project.deleted')
    .execute();
  const ids = emitted.map(({ body }) => JSON.parse(body ?? '{}').project_id);
  expect(ids.toSorted((a, b) => a - b)).toEqual(projects.map(({ id }) => id));
});

it('emits an event for each project deleted with its user, visible only to administrators', async () => {
  const { make, as, root } = app();
  const user = await make.user({ name: 'Uwe' });
  const project = await make.project({}, user);
  expect((await as(root).delete(`/users/${user.id}`)).status).toBe(204);
  const events = await deletionsOf(project.id);
  expect(events).toHaveLength(1);
  expect(events[0]).toMatchObject({ actor_id: root.id, project_id: project.id, user_ids: [] });
  expect(await bodyOf(events[0])).toMatchObject({
    event_name: 'project_destroy',
    path_with_namespace: `${user.username}/${project.path}`,
    owners: [{ name: 'Uwe' }],
  });
  expect((await as(root).get(`/projects/${project.id}`)).status).toBe(404);
});

it('omits the owners, which only hooks get, from `events`', async () => {
  const { make, as, url } = app();
  const owner = await make.user({ name: 'Secret Owner' });
  const project = await make.project({ visibility: 'public' }, owner);
  await as(owner).put(`/projects/${project.id}`, { description: 'seen' });
  await app().settle();
  const query = `subscription { events(after: "${encodeCursor([0])}", scope: { projectPath: "${project.path_with_namespace}" }) {
    kind payload } }`;
  await using stack = new AsyncDisposableStack();
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  const response = await fetch(`${url}/api/graphql?${new URLSearchParams({ query })}`, {
    headers: { accept: 'text/event-stream' },
    signal: stop.signal,
  });
  let text = '';
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk;
    if (text.includes('project.updated')) break;
  }
  expect(text).toContain('project.created');
  expect(text).toContain(`"path_with_namespace":"${project.path_with_namespace}"`);
  expect(text).not.toMatch(/Secret Owner|owners|hook_only/);
  const [created] = await findEvents(app(), 'Project', project.id);
  expect(await bodyOf(created)).toMatchObject({ owners: [{ name: 'Secret Owner', email: '[REDACTED]' }] });
});
