import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import type { EventRow } from '#platform/events.ts';
import { useApp } from '../support/app.ts';
import { remoteOf, runGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

const bodiesOf = async (projectId: number) => {
  const { rows } = await app().hub.services.pool.query<EventRow>(
    "select * from events where project_id = $1 and kind in ('push.received', 'tag.pushed', 'repository.updated') order by id",
    [projectId],
  );
  return Promise.all(
    rows.map(async (event) => {
      const definition = eventDefinitions.find(({ kind }) => kind === event.kind);
      return {
        trigger: definition?.trigger(event.payload),
        body: await definition?.body(app().context(), event),
      };
    }),
  );
};

describe('the hook body of a push', () => {
  it('has the documented keys', async () => {
    const owner = await app().make.user({ public_email: 'owner@example.com' });
    const project = await app().make.project({ visibility: 'private' }, owner);
    const tree = await workTree(folder());
    const remote = await remoteOf(app(), project, owner);
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'tag', '-a', '-m', 'One', 'v1');
    await runGit(tree, 'push', '-q', remote, 'main', 'v1');
    await runGit(tree, 'push', '-q', remote, ':v1');
    const [push, tag, update, deleted] = await bodiesOf(project.id);
    const web = `${app().url}/${project.path_with_namespace}`;
    const hookProject = {
      id: project.id,
      name: project.path,
      description: null,
      web_url: web,
      avatar_url: null,
      git_ssh_url: `git@127.0.0.1:${project.path_with_namespace}.git`,
      git_http_url: `${web}.git`,
      namespace: owner.username,
      visibility_level: 0,
      path_with_namespace: project.path_with_namespace,
      default_branch: 'main',
      ci_config_path: null,
      homepage: web,
      url: `git@127.0.0.1:${project.path_with_namespace}.git`,
      ssh_url: `git@127.0.0.1:${project.path_with_namespace}.git`,
      http_url: `${web}.git`,
    };
    expect(push).toEqual({
      trigger: 'push_events',
      body: {
        object_kind: 'push',
        event_name: 'push',
        before: '0'.repeat(40),
        after: head,
        ref: 'refs/heads/main',
        ref_protected: true,
        checkout_sha: head,
        message: null,
        user_id: owner.id,
        user_name: `Name of ${owner.username}`,
        user_username: owner.username,
        user_email: 'owner@example.com',
        user_avatar: null,
        project_id: project.id,
        project: hookProject,
        commits: [
          {
            id: head,
            message: 'First commit\n',
            title: 'First commit',
            timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*[+Z]/),
            url: `${web}/-/commit/${head}`,
            author: { name: 'Ada', email: 'ada@example.com' },
            added: ['README.md'],
            modified: [],
            removed: [],
          },
        ],
        total_commits_count: 1,
        push_options: {},
        repository: {
          name: project.path,
          url: hookProject.git_ssh_url,
          description: null,
          homepage: web,
          git_http_url: hookProject.git_http_url,
          git_ssh_url: hookProject.git_ssh_url,
          visibility_level: 0,
        },
      },
    });
    expect(tag?.trigger).toBe('tag_push_events');
    expect(tag?.body).toMatchObject({
      object_kind: 'tag_push',
      ref: 'refs/tags/v1',
      checkout_sha: head,
      message: 'One',
    });
    expect(update?.trigger).toBe('repository_update_events');
    expect(update?.body).toEqual({
      event_name: 'repository_update',
      user_id: owner.id,
      user_name: `Name of ${owner.username}`,
      user_email: 'owner@example.com',
      user_avatar: null,
      project_id: project.id,
      project: hookProject,
      changes: [
        { before: '0'.repeat(40), after: head, ref: 'refs/heads/main' },
        { before: '0'.repeat(40), after: await runGit(tree, 'rev-parse', 'v1'), ref: 'refs/tags/v1' },
      ],
      refs: ['refs/heads/main', 'refs/tags/v1'],
    });
    expect(deleted?.body).toMatchObject({ after: '0'.repeat(40), checkout_sha: null, message: null, commits: [] });
  });

  it('is not sent if a push moves more branches or tags than the limit', async () => {
    const project = await app().make.project({});
    const tree = await workTree(folder());
    const remote = await remoteOf(app(), project, app().root);
    await runGit(tree, 'tag', 'v1');
    await runGit(tree, 'push', '-q', remote, 'main', 'main:a', 'main:b', 'main:c', 'v1');
    const triggers = (await bodiesOf(project.id)).map(({ trigger }) => trigger);
    expect(triggers).toEqual([null, null, null, null, 'tag_push_events', 'repository_update_events']);
  });
});
