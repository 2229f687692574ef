import { expect, it, vi } from 'vitest';
import { templatesOf, weightOf } from '#domains/markdown/templates.ts';
import { Caches } from '#platform/cache.ts';
import { insertMergeRequest, insertRelease } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { countStatements } from '../support/statements.ts';

const app = useApp();

/** A public project whose texts refer to a private one, and to confidential things. */
const makeTexts = async () => {
  const { make, root } = app();
  const hidden = await makeScene(app());
  const { owner, group } = hidden;
  const project = await make.project(
    { namespace_id: group.id, visibility: 'public', initialize_with_readme: true },
    hidden.people.owner,
  );
  await make.projectMember(project, hidden.people.reporter, 20);
  const path = `/projects/${project.id}`;
  const issue = async (at: string, body: Record<string, unknown>) => {
    const { status, body: made } = await owner.post(`${at}/issues`, body);
    expect(status).toBe(201);
    return made;
  };
  const secret = await issue(hidden.path, { title: 'Hidden "plan"' });
  const open = await issue(path, { title: 'Open' });
  const confidential = await issue(path, { title: 'Confidential', confidential: true });
  const mergeRequest = await insertMergeRequest(app().hub.services.db, {
    project_id: hidden.project.id,
    author_id: root.id,
  });
  for (const [name, at] of [
    ['team', `/groups/${group.id}`],
    ['own label', path],
    ['inner', hidden.path],
  ] as const) {
    expect((await owner.post(`${at}/labels`, { name, color: '#ff0000', description: `about ${name} #1` })).status).toBe(
      201,
    );
  }
  const milestone = await owner.post(`${path}/milestones`, { title: 'v 1.0' });
  const { body: commits } = await owner.get(`${path}/repository/commits`);
  return {
    ...hidden,
    hidden: hidden.project,
    hiddenPath: hidden.project.path_with_namespace,
    project,
    path,
    issue,
    open,
    secret,
    confidential,
    mergeRequest,
    milestone: milestone.body,
    sha: String(commits[0].id),
  };
};

/** Returns the text, titles and targets of the links that a reader gets. */
const linksIn = (html: string): { text: string; title: string | undefined; href: string | undefined }[] =>
  [...html.matchAll(/<a ([^>]*)>(.*?)<\/a>/g)].map(([, attributes = '', text = '']) => ({
    text: text.replace(/<[^>]*>/g, ''),
    title: / title="([^"]*)"/.exec(` ${attributes}`)?.[1],
    href: / href="([^"]*)"/.exec(` ${attributes}`)?.[1],
  }));

it('references are links only for readers who can see what they name', async () => {
  const texts = await makeTexts();
  const { url } = app();
  const { project, people, group, hiddenPath, mergeRequest, confidential, sha } = texts;
  const full = project.path_with_namespace;
  const hiddenUrl = `${url}/${hiddenPath}/-/issues/${texts.secret.iid}`;
  const description = [
    `#${texts.open.iid} #${confidential.iid} #999 ${hiddenPath}#${texts.secret.iid} ${hiddenPath}!${mergeRequest.iid}`,
    `nobody/nothing#1 @${people.guest.username} @${group.path} @nobody-here`,
    `~team ~"own label" ~none ${hiddenPath}~inner %"v 1.0" ${sha.slice(0, 30)} ${hiddenPath}@${sha.slice(0, 30)} deadbeef00`,
    `${hiddenUrl}#note_7 ${url}/${full}/-/issues/${texts.open.iid}`,
  ].join('\n\n');
  const made = await texts.issue(texts.path, {
    title: `About **#${texts.open.iid}** and #${confidential.iid}`,
    description,
  });
  const query = `{ project(fullPath: "${full}") { issue(iid: "${made.iid}") { titleHtml descriptionHtml } } }`;
  const read = async (client: typeof texts.owner): Promise<{ titleHtml: string; descriptionHtml: string }> => {
    const { data, errors } = await client.graphql(query);
    expect(errors).toBeUndefined();
    return data.project.issue;
  };

  // The owner sees first, so that a shared cache would show the secrets to those who follow.
  const seen = await read(texts.owner);
  expect(linksIn(seen.descriptionHtml)).toEqual([
    { text: `#${texts.open.iid}`, title: 'Open', href: `${url}/${full}/-/issues/${texts.open.iid}` },
    { text: `#${confidential.iid}`, title: 'Confidential', href: `${url}/${full}/-/issues/${confidential.iid}` },
    { text: `${hiddenPath}#${texts.secret.iid}`, title: 'Hidden &quot;plan&quot;', href: hiddenUrl },
    {
      text: `${hiddenPath}!${mergeRequest.iid}`,
      title: mergeRequest.title,
      href: `${url}/${hiddenPath}/-/merge_requests/${mergeRequest.iid}`,
    },
    { text: `@${people.guest.username}`, title: expect.any(String), href: `${url}/${people.guest.username}` },
    { text: `@${group.path}`, title: expect.any(String), href: `${url}/groups/${group.path}` },
    { text: 'team', title: 'about team #1', href: `${url}/${full}/-/issues?label_name=team` },
    { text: 'own label', title: 'about own label #1', href: `${url}/${full}/-/issues?label_name=own%20label` },
    { text: 'inner', title: 'about inner #1', href: `${url}/${hiddenPath}/-/issues?label_name=inner` },
    { text: '%v 1.0', title: '', href: `${url}/${full}/-/milestones/${texts.milestone.iid}` },
    { text: sha.slice(0, 8), title: 'Initial commit', href: `${url}/${full}/-/commit/${sha}` },
    {
      text: `${hiddenPath}#${texts.secret.iid} (comment 7)`,
      title: 'Hidden &quot;plan&quot;',
      href: `${hiddenUrl}#note_7`,
    },
    { text: `#${texts.open.iid}`, title: 'Open', href: `${url}/${full}/-/issues/${texts.open.iid}` },
  ]);
  expect(linksIn(seen.titleHtml).map(({ text }) => text)).toEqual([`#${texts.open.iid}`, `#${confidential.iid}`]);
  expect(seen.descriptionHtml).toContain(
    `class="gfm gfm-issue" data-reference-type="issue" data-original="#${texts.open.iid}" data-project="${project.id}" data-issue="${texts.open.id}" data-iid="${texts.open.iid}" data-project-path="${full}"`,
  );

  // A stranger and an anonymous reader see neither title nor existence of what is closed to them.
  const missing = await texts.issue(texts.path, {
    title: 'Nothing',
    description: description.replaceAll(hiddenPath, 'nobody/nothing').replace(`#${confidential.iid} `, '#998 '),
  });
  for (const client of [texts.stranger, app().anonymous]) {
    const { titleHtml, descriptionHtml } = await read(client);
    expect(linksIn(descriptionHtml).map(({ text }) => text)).toEqual([
      `#${texts.open.iid}`,
      `@${people.guest.username}`,
      `@${group.path}`,
      'team',
      'own label',
      '%v 1.0',
      sha.slice(0, 8),
      // A URL stays as it was written.
      `${hiddenUrl}#note_7`,
      `#${texts.open.iid}`,
    ]);
    expect(descriptionHtml + titleHtml).not.toMatch(/Hidden|Confidential|about inner/);
    expect(titleHtml).toMatch(/^About <strong><a .*<\/a><\/strong> and #\d+$/);
    const other = query.replace(`iid: "${made.iid}"`, `iid: "${missing.iid}"`);
    const { data } = await client.graphql(other);
    const anonymised = descriptionHtml
      .replaceAll(hiddenPath, 'nobody/nothing')
      .replace(`#${confidential.iid} `, '#998 ');
    expect(data.project.issue.descriptionHtml).toBe(anonymised);
  }
});

it('all fields that promise HTML hold rendered Markdown', async () => {
  const texts = await makeTexts();
  const { project, group, path, owner, hidden } = texts;
  const full = project.path_with_namespace;
  const text = `**b** #${texts.open.iid} [doc](a.md)`;
  const link = `<a href="${app().url}/${full}/-/issues/${texts.open.iid}"`;
  const inProject = [`<p dir="auto"><strong>b</strong> ${link}`, `href="${app().url}/${full}/-/blob/HEAD/a.md"`];
  const expectAll = (html: unknown, parts: readonly string[]) => {
    for (const part of parts) expect(html).toEqual(expect.stringContaining(part));
  };

  const db = app().hub.services.db;
  const row = await insertMergeRequest(db, {
    project_id: project.id,
    author_id: texts.people.owner.id,
    title: `*t* #${texts.open.iid}`,
    description: text,
  });
  const one = await owner.get(`${path}/merge_requests/${row.iid}?render_html=true`);
  expectAll(one.body.description_html, inProject);
  expect(one.body.title_html).toMatch(/^<em>t<\/em> <a /);
  const list = await owner.get(`${path}/merge_requests?with_labels_details=true`);
  expect(list.body[0]).not.toHaveProperty('description_html');

  expect((await owner.put(path, { description: text })).status).toBe(200);
  expectAll((await owner.get(path)).body.description_html, inProject);
  const owned = await owner.get('/projects?owned=true');
  expectAll(owned.body.find(({ id }: { id: number }) => id === project.id).description_html, inProject);
  const attributes = await app().as(app().root).get(`/projects?with_custom_attributes=true&search=${project.path}`);
  expectAll(attributes.body[0].description_html, inProject);

  const label = await owner.get(`${path}/labels/own%20label`);
  expect(label.body.description_html).toContain(`about own label ${link}`);
  const inner = await owner.get(`/groups/${group.id}/labels/team`);
  expect(inner.body.description_html).toBe('about team #1');
  await owner.put(`${path}/issues/${texts.open.iid}`, { labels: 'own label' });
  const detailed = await owner.get(`${path}/issues?with_labels_details=true&iids[]=${texts.open.iid}`);
  expect(detailed.body[0].labels[0].description_html).toContain(link);
  const events = await owner.get(`${path}/issues/${texts.open.iid}/resource_label_events`);
  expect(events.body[0].label.description_html).toContain(link);

  await insertRelease(db, {
    project_id: project.id,
    tag: 'v1',
    description: text,
    released_at: '2026-01-01T00:00:00Z',
  });
  const release = await owner.get(`${path}/releases/v1?include_html_description=true`);
  expectAll(release.body.description_html, inProject);

  const note = await owner.post(`${path}/issues/${texts.open.iid}/notes`, { body: text });
  expect(note.status).toBe(201);
  await db
    .updateTable('namespaces')
    .set({ description: `*g* ${full}#${texts.open.iid} ~team` })
    .where('id', '=', group.id)
    .execute();
  expect((await owner.put(path, { topics: [`t${project.id}`] })).status).toBe(200);
  await db.updateTable('topics').set({ description: '# T\n\n[x](y)' }).where('name', '=', `t${project.id}`).execute();
  const { data, errors } = await owner.graphql(`{
    project(fullPath: "${full}") {
      descriptionHtml
      mergeRequest(iid: "${row.iid}") { titleHtml descriptionHtml }
      issue(iid: "${texts.open.iid}") { notes { nodes { bodyHtml } } }
      label(title: "own label") { descriptionHtml }
      release(tagName: "v1") { descriptionHtml }
    }
    group(fullPath: "${group.full_path}") { descriptionHtml }
    topics(search: "t${project.id}") { nodes { descriptionHtml } } }`);
  expect(errors).toBeUndefined();
  expectAll(data.project.descriptionHtml, inProject);
  expect(data.project.mergeRequest.titleHtml).toBe(one.body.title_html);
  expectAll(data.project.mergeRequest.descriptionHtml, inProject);
  expectAll(data.project.issue.notes.nodes.at(-1).bodyHtml, inProject);
  expect(data.project.label.descriptionHtml).toBe(label.body.description_html);
  expectAll(data.project.release.descriptionHtml, inProject);
  expectAll(data.group.descriptionHtml, [`<p dir="auto"><em>g</em> ${link}`, 'gfm-label']);
  expect(data.topics.nodes[0].descriptionHtml).toBe(
    '<h1 id="user-content-t" dir="auto">T<a class="anchor" aria-hidden="true" href="#t"></a></h1>\n<p dir="auto"><a href="' +
      `${app().url}/y">x</a></p>`,
  );
  expect(hidden.id).not.toBe(project.id);
});

it('many texts take as many statements as two', async () => {
  const { people, owner, path, project, open, hiddenPath, secret, sha } = await makeTexts();
  const noted = await owner.post(`${path}/issues`, { title: 'Noted' });
  const query = `{ project(fullPath: "${project.path_with_namespace}") { issue(iid: "${noted.body.iid}") {
    notes(filter: ONLY_COMMENTS) { nodes { bodyHtml } } } } }`;
  const add = async (count: number) => {
    for (let n = 0; n < count; n++) {
      const body = `${n} #${open.iid} ${hiddenPath}#${secret.iid} !${n + 1} @${people.guest.username} ~team %"v 1.0" ${sha}`;
      expect((await owner.post(`${path}/issues/${noted.body.iid}/notes`, { body })).status).toBe(201);
    }
  };
  await add(2);
  const few = await countStatements(app(), () => owner.graphql(query));
  await add(18);
  expect(await countStatements(app(), () => owner.graphql(query))).toBe(few);
  const { data } = await owner.graphql(query);
  const { nodes } = data.project.issue.notes;
  expect(nodes).toHaveLength(20);
  for (const { bodyHtml } of nodes) expect(linksIn(bodyHtml)).toHaveLength(6);
});

it('images of other hosts come from the proxy that administrators set', async () => {
  const { make, root, as } = app();
  const administrator = as(root);
  const image = '![a](http://images.example/a.png) ![b](http://kept.example/b.png)';
  const project = await make.project({ visibility: 'public', description: image }, root);
  const html = async () => (await administrator.get(`/projects/${project.id}`)).body.description_html;
  expect(await html()).toContain('src="http://images.example/a.png"');
  // A proxy without a key is used too: readers are never shown to other hosts while it is on.
  const withoutKey = { asset_proxy_enabled: true, asset_proxy_url: 'https://camo.example' };
  expect((await administrator.put('/application/settings', withoutKey)).status).toBe(200);
  expect(await html()).toMatch(/^(?:(?!(src|href)="http:\/\/(images|kept)).)*$/s);
  const on = {
    asset_proxy_secret_key: 'shared',
    asset_proxy_allowlist: ['kept.example'],
  };
  expect((await administrator.put('/application/settings', on)).status).toBe(200);
  const hex = Buffer.from('http://images.example/a.png').toString('hex');
  const proxied = await html();
  expect(proxied).toMatch(new RegExp(`src="https://camo\\.example/[0-9a-f]{40}/${hex}"`));
  expect(proxied).toContain('src="http://kept.example/b.png"');
  // A new key and a new version take effect at once, although the HTML is cached.
  expect((await administrator.put('/application/settings', { asset_proxy_secret_key: 'other' })).status).toBe(200);
  const renewed = await html();
  expect(renewed).not.toBe(proxied);
  const lookups = async () =>
    /millrace_cache_lookups_total\{cache="rendered texts",result="miss"\} (\d+)/.exec(
      await (await fetch(`${app().url}/-/metrics`)).text(),
    )?.[1];
  const before = Number(await lookups());
  expect((await administrator.put('/application/settings', { local_markdown_version: 1 })).status).toBe(200);
  expect(await html()).toBe(renewed);
  expect(Number(await lookups())).toBe(before + 1);
  expect((await administrator.put('/application/settings', { asset_proxy_enabled: false })).status).toBe(200);
  expect(await html()).toContain('src="http://images.example/a.png"');
});

it('long texts are rendered in another thread, and longer ones are shown as they were written', async () => {
  const { make, root, as } = app();
  const project = await make.project({ visibility: 'public' }, root);
  const client = as(root);
  const htmlOf = async (description: string) => {
    const { body } = await client.post(`/projects/${project.id}/issues`, { title: 'Long', description });
    const { data } = await client.graphql(
      `{ project(fullPath: "${project.path_with_namespace}") { issue(iid: "${body.iid}") { descriptionHtml } } }`,
    );
    return data.project.issue.descriptionHtml;
  };
  const long = await htmlOf(`${'word '.repeat(3_000)}**end** #1`);
  expect(long).toContain('<strong>end</strong> <a href="');
  const longer = await htmlOf(`**a** <b>\n\n${'word '.repeat(30_000)}`);
  expect(longer.startsWith('<p dir="auto">**a** &lt;b&gt;</p>\n<p dir="auto">word')).toBe(true);
  const hostile = await htmlOf('!['.repeat(60_000));
  expect(hostile).toContain('![![![');
});

it('a text that cannot be rendered stays plain, and is neither kept nor the end of its list', async () => {
  const log = app().hub.services.log.child({});
  const complaints = vi.spyOn(log, 'error').mockReturnValue(undefined);
  const caches = new Caches();
  const ctx = { services: { ...app().hub.services, caches, log } };
  const image = '![](http://a.example/x)';
  const texts = [{ text: image }, { text: image + ' x'.repeat(8_000) }, { text: '*a*' }];
  const proxy = { url: 'https://camo.example', secret: 's' };
  const bad = { base: app().url, assetProxy: { ...proxy, allowlist: JSON.parse('[1]') } };
  const [short, long, fine] = await templatesOf(ctx, texts, bad, 'v');
  expect(short?.html).toEqual([`<p dir="auto">${image}</p>`]);
  expect(long?.html[0]).toContain(`<p dir="auto">${image} x x`);
  expect(fine?.html).toEqual(['<p dir="auto"><em>a</em></p>']);
  expect(complaints).toHaveBeenCalledTimes(2);
  const good = { base: app().url, assetProxy: { ...proxy, allowlist: [] } };
  const [again, longAgain] = await templatesOf(ctx, texts, good, 'v');
  expect(again?.html[0]).toContain('src="https://camo.example/');
  expect(longAgain?.html[0]).toContain('src="https://camo.example/');
});

it('the cache of rendered texts counts all it holds', async () => {
  const name = 'n'.repeat(250);
  const caches = new Caches();
  const create = vi.spyOn(caches, 'create');
  const ctx = { services: { ...app().hub.services, caches } };
  const options = { base: app().url, assetProxy: null };
  const [template] = await templatesOf(ctx, [{ text: `~"${name}" `.repeat(20) }], options, 'v');
  expect(template?.slots).toHaveLength(20);
  expect(template && weightOf(template)).toBeGreaterThan(20 * 2 * 2 * 250);
  const set = vi.spyOn(create.mock.results[0]?.value, 'set');
  await templatesOf(ctx, [{ text: `${name}\n`.repeat(20) }], options, 'v');
  expect(String(set.mock.calls[0]?.[0]).length).toBeLessThan(100);
});

it('POST /markdown renders any text, with references on request', async () => {
  const { path, project, owner, stranger, hidden, open, hiddenPath, secret } = await makeTexts();
  const { anonymous } = app();
  const text = `*a* #${open.iid} ${hiddenPath}#${secret.iid}`;
  const full = project.path_with_namespace;
  const plain = `<p dir="auto"><em>a</em> #${open.iid} ${hiddenPath}#${secret.iid}</p>`;
  const post = (body: Record<string, unknown>, client = owner) => client.post('/markdown', body);
  expect(await post({ text })).toMatchObject({ status: 201, body: { html: plain } });
  expect((await post({ text, project: full })).body.html).toBe(plain);
  for (const at of [full, project.id]) {
    const { body } = await post({ text, gfm: true, project: at });
    expect(linksIn(body.html).map((link) => link.text)).toEqual([`#${open.iid}`, `${hiddenPath}#${secret.iid}`]);
  }
  expect(linksIn((await post({ text, gfm: true })).body.html)).toHaveLength(1);
  const seen = await post({ text, gfm: true, project: full }, stranger);
  expect(linksIn(seen.body.html).map((link) => link.text)).toEqual([`#${open.iid}`]);

  expect(await post({ text, project: hidden.id }, stranger)).toMatchObject({ status: 404 });
  expect(await post({ text, gfm: true, project: hiddenPath }, stranger)).toMatchObject({ status: 404 });
  expect((await post({ text }, anonymous)).status).toBe(401);
  expect(await post({ gfm: true })).toMatchObject({ status: 400, body: { error: 'text is missing' } });
  expect((await post({ text: 'a'.repeat(1_048_577) })).status).toBe(400);

  // A group that is closed to mentions is no link.
  const { body: group } = await owner.post('/groups', {
    name: 'Closed',
    path: `closed-${project.id}`,
    mentions_disabled: true,
  });
  expect(linksIn((await post({ text: `@${group.full_path}`, gfm: true })).body.html)).toEqual([]);
  expect((await owner.get(path)).status).toBe(200);
});
