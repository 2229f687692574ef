import type { PoolClient } from 'pg';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

const NODES =
  '{ count nodes { id name fullPath starCount namespace { fullName } } pageInfo { endCursor hasNextPage } }';

describe('Project', () => {
  it('is read by its path, and is null if the caller cannot see it', async () => {
    const user = await app().make.user();
    const project = await app().make.project({ name: 'Seen', description: 'd', initialize_with_readme: true }, user);
    const query = `query ($path: ID!) { project(fullPath: $path) {
      id name nameWithNamespace description descriptionHtml visibility archived webUrl sshUrlToRepo httpUrlToRepo readmeUrl
      createdAt starCount forksCount openIssuesCount topics issuesEnabled importStatus squashReadOnly isStarred
      namespace { id fullPath } group { id } statistics { commitCount storageSize } settings
      maxAccessLevel { integerValue stringValue } userPermissions { adminProject removeProject pushCode } } }`;
    const { data, errors } = await app().as(user).graphql(query, { path: project.path_with_namespace });
    expect(errors).toBeUndefined();
    expect(data.project).toMatchObject({
      id: `gid://gitlab/Project/${project.id}`,
      name: 'Seen',
      nameWithNamespace: `${user.username} / Seen`,
      descriptionHtml: '<p dir="auto">d</p>',
      visibility: 'private',
      readmeUrl: `${app().url}/${project.path_with_namespace}/-/blob/main/README.md`,
      importStatus: 'none',
      namespace: { fullPath: user.username },
      group: null,
      statistics: { commitCount: 1 },
      settings: { merge_method: 'merge' },
      maxAccessLevel: { integerValue: 50, stringValue: 'OWNER' },
      userPermissions: { adminProject: true, removeProject: true, pushCode: true },
    });
    const stranger = app().as(await app().make.user());
    expect(await stranger.graphql(query, { path: project.path_with_namespace })).toEqual({ data: { project: null } });
    expect((await app().anonymous.graphql(query, { path: project.path_with_namespace })).data.project).toBeNull();
    // Anonymous callers get the simple record over REST.
    const open = await app().make.project({ visibility: 'public' }, user);
    const path = { path: open.path_with_namespace };
    expect((await stranger.graphql(query, path)).data.project.settings).toMatchObject({ merge_method: 'merge' });
    expect((await app().anonymous.graphql(query, path)).data.project).toMatchObject({
      name: open.name,
      settings: null,
    });
  });

  it('is listed with filters, pages and counts', async () => {
    const { make } = app();
    const user = await make.user();
    const client = app().as(user);
    const made = [];
    for (const name of ['c', 'a', 'b']) made.push(await make.project({ name }, user));
    const list = async (args: string) => {
      const { data, errors } = await client.graphql(`{ projects(membership: true${args}) ${NODES} }`);
      expect(errors).toBeUndefined();
      return data.projects;
    };
    const all = await list('');
    expect(all.count).toBe(3);
    expect(all.nodes.map((each: { name: string }) => each.name)).toEqual(['b', 'a', 'c']);
    expect(all.nodes[0].namespace.fullName).toBe(user.username);
    const namesOf = ({ nodes }: { nodes: { name: string }[] }) => nodes.map((each) => each.name);
    expect(namesOf(await list(', sort: "name_asc"'))).toEqual(['a', 'b', 'c']);
    const first = await list(', sort: "name_asc", first: 2');
    expect(namesOf(first)).toEqual(['a', 'b']);
    expect(first.pageInfo.hasNextPage).toBe(true);
    expect(namesOf(await list(`, sort: "name_asc", first: 2, after: "${first.pageInfo.endCursor}"`))).toEqual(['c']);
    expect(namesOf(await list(', sort: "name_asc", last: 1'))).toEqual(['c']);
    expect(namesOf(await list(`, ids: ["gid://gitlab/Project/${made[1]?.id}"]`))).toEqual(['a']);
    expect(namesOf(await list(`, fullPaths: ["${made[0]?.path_with_namespace.toUpperCase()}"]`))).toEqual(['c']);
    expect(namesOf(await list(', minAccessLevel: OWNER, search: "a"'))).toEqual(['a']);
    expect(namesOf(await list(', visibilityLevel: public'))).toEqual([]);
    const { errors } = await client.graphql(`{ projects(sort: "created_asc", after: "WyJ4Iiwx") { nodes { id } } }`);
    expect(errors?.[0]?.message).toContain('cursor');
  });

  it('is read for several groups in one statement', async () => {
    const { make } = app();
    const user = await make.user();
    const parent = await make.group({}, user);
    const groups = [];
    for (let i = 0; i < 3; i++) {
      const group = await make.group({ parent_id: parent.id }, user);
      groups.push(group);
      for (let j = 0; j <= i; j++) await make.project({ namespace_id: group.id, name: `p${i}${j}` }, user);
    }
    const statements: string[] = [];
    const { pool } = app().hub.services;
    const watched = new Map<PoolClient, PoolClient['query']>();
    const watch = (client: PoolClient) => {
      if (watched.has(client)) return;
      const { query } = client;
      watched.set(client, query);
      const spy = (...args: unknown[]): unknown => {
        statements.push(typeof args[0] === 'string' ? args[0] : String(Object(args[0]).text));
        return Reflect.apply(query, client, args);
      };
      Object.defineProperty(client, 'query', { value: spy, configurable: true });
    };
    pool.on('acquire', watch);
    const { data, errors } = await app()
      .as(user)
      .graphql(
        `query ($path: ID!) { group(fullPath: $path) {
          own: projects { count } all: projects(includeSubgroups: true, first: 2, sort: NAME_ASC) { count nodes { name } }
          descendantGroups { nodes { fullPath projects(first: 2, sort: NAME_ASC) ${NODES} } } } }`,
        { path: parent.full_path },
      );
    pool.off('acquire', watch);
    for (const [client, query] of watched) Object.defineProperty(client, 'query', { value: query, configurable: true });
    expect(errors).toBeUndefined();
    expect(data.group.own.count).toBe(0);
    expect(data.group.all).toEqual({ count: 6, nodes: [{ name: 'p00' }, { name: 'p10' }] });
    const below = Object.fromEntries(
      data.group.descendantGroups.nodes.map(
        (each: { fullPath: string; projects: { count: number; nodes: { name: string }[] } }) => [
          each.fullPath,
          [each.projects.count, ...each.projects.nodes.map(({ name }) => name)],
        ],
      ),
    );
    expect(below).toEqual({
      [groups[0]?.full_path ?? '']: [1, 'p00'],
      [groups[1]?.full_path ?? '']: [2, 'p10', 'p11'],
      [groups[2]?.full_path ?? '']: [3, 'p20', 'p21'],
    });
    // A single group uses the same list query.
    const rows = statements.filter((text) => /cross join lateral \(select "projects"/.test(text));
    expect(rows).toHaveLength(1);
  });
});

describe('every mutation', () => {
  const create = `mutation ($input: ProjectCreateInput!) { projectCreate(input: $input) {
    project { id fullPath visibility settings userPermissions { adminProject } } errors } }`;

  it('follows the same rules as REST: create, change, archive, star and delete', async () => {
    const user = await app().make.user();
    const client = app().as(user);
    const made = await client.graphql(create, {
      input: {
        name: 'By graph',
        visibility: 'internal',
        ciConfigPath: 'x.yml',
        topics: ['t'],
        initializeWithReadme: true,
      },
    });
    expect(made).toMatchObject({
      data: {
        projectCreate: {
          errors: [],
          project: { visibility: 'internal', settings: { ci_config_path: 'x.yml', topics: ['t'] } },
        },
      },
    });
    const { fullPath, id } = made.data.projectCreate.project;
    expect(fullPath).toBe(`${user.username}/by-graph`);
    const taken = await client.graphql(create, { input: { name: 'By graph' } });
    expect(taken.data.projectCreate).toEqual({
      project: null,
      errors: ['Name has already been taken', 'Path has already been taken'],
    });
    const updated = await client.graphql(
      `mutation ($p: ID!) { projectUpdate(input: { fullPath: $p, description: "new", mergeMethod: "ff", buildTimeout: 900 }) {
        project { description mergeRequestsFfOnlyEnabled settings } errors } }`,
      { p: fullPath },
    );
    expect(updated.data.projectUpdate).toMatchObject({
      errors: [],
      project: { description: 'new', mergeRequestsFfOnlyEnabled: true, settings: { build_timeout: 900 } },
    });
    const bad = await client.graphql(
      `mutation ($p: ID!) { projectUpdate(input: { fullPath: $p, mergeMethod: "no" }) { errors } }`,
      { p: fullPath },
    );
    expect(bad.data.projectUpdate.errors).toEqual([
      'Merge method does not have a valid value (allowed: merge, rebase_merge, ff)',
    ]);
    const starred = await client.graphql(
      `mutation ($id: ProjectID!) { starProject(input: { projectId: $id, starred: true }) { count project { isStarred } } }`,
      { id },
    );
    expect(starred.data.starProject).toEqual({ count: '1', project: { isStarred: true } });
    const mine = await client.graphql('{ currentUser { starredProjects { nodes { fullPath } } } }');
    expect(mine.data.currentUser.starredProjects.nodes).toEqual([{ fullPath }]);
    const archived = await client.graphql(
      'mutation ($p: ID!) { projectArchive(input: { fullPath: $p }) { project { archived userPermissions { pushCode } } } }',
      { p: fullPath },
    );
    expect(archived.data.projectArchive.project).toEqual({ archived: true, userPermissions: { pushCode: false } });
    const stranger = app().as(await app().make.user());
    const refused = await stranger.graphql('mutation ($p: ID!) { projectDelete(input: { fullPath: $p }) { errors } }', {
      p: fullPath,
    });
    expect(refused.errors?.[0]?.message).toContain("you don't have permission");
    const deleted = await client.graphql('mutation ($p: ID!) { projectDelete(input: { fullPath: $p }) { errors } }', {
      p: fullPath,
    });
    expect(deleted.data.projectDelete.errors).toEqual([]);
    expect((await client.get(`/projects/${encodeURIComponent(fullPath)}`)).status).toBe(404);
  });
});
