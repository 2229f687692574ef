import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// An unmodified third-party client uses the external address.

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
let owner: TestUser;
let api: InstanceType<typeof Gitlab>;

beforeAll(async () => {
  front.target = app().hub.url;
  owner = await app().make.user();
  api = new Gitlab({ host: front.url, token: await app().tokenOf(owner) });
});
afterAll(() => front.close());

describe('gitbeaker', () => {
  it('releases a tag with links', async () => {
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const ref = project.default_branch ?? 'main';
    const made = await api.ProjectReleases.create(project.id, { tag_name: 'v1', ref, name: 'One' });
    expect(made).toMatchObject({ tag_name: 'v1', name: 'One' });
    const link = await api.ReleaseLinks.create(project.id, 'v1', 'Linux', 'https://example.com/l', {
      linkType: 'package',
    });
    expect(await api.ReleaseLinks.show(project.id, 'v1', link.id)).toMatchObject({
      name: 'Linux',
      link_type: 'package',
    });
    await api.ReleaseLinks.edit(project.id, 'v1', link.id, { name: 'Mac' });
    expect((await api.ProjectReleases.showLatest(project.id)).assets.links).toEqual([
      expect.objectContaining({ name: 'Mac' }),
    ]);
    await api.ReleaseLinks.remove(project.id, 'v1', link.id);
    expect(await api.ProjectReleases.edit(project.id, 'v1', { description: 'New' })).toMatchObject({
      description: 'New',
    });
    await api.ProjectReleases.remove(project.id, 'v1');
    expect(await api.ProjectReleases.all(project.id)).toEqual([]);
  });

  it('awards emoji and removes them', async () => {
    const project = await app().make.project({}, owner);
    const issue = await api.Issues.create(project.id, 'Nice');
    const award = await api.IssueAwardEmojis.award(project.id, issue.iid, 'tada');
    expect(await api.IssueAwardEmojis.all(project.id, issue.iid)).toEqual([award]);
    expect(await api.IssueAwardEmojis.show(project.id, issue.iid, award.id)).toEqual(award);
    await api.IssueAwardEmojis.remove(project.id, issue.iid, award.id);
    const note = await api.IssueNotes.create(project.id, issue.iid, 'Well');
    const onNote = await api.IssueNoteAwardEmojis.award(project.id, issue.iid, note.id, 'eyes');
    expect(await api.IssueNoteAwardEmojis.all(project.id, issue.iid, note.id)).toEqual([onNote]);
  });

  it('attaches files, lists, reads and removes them', async () => {
    const project = await app().make.project({}, owner);
    const file = { content: new Blob(['hello']), filename: 'note.txt' };
    const made = await api.Projects.uploadForReference(project.id, file);
    expect(made.markdown).toBe(`[note.txt](${made.url})`);
    const [listed] = await api.ProjectMarkdownUploads.all(project.id);
    expect(listed).toMatchObject({ filename: 'note.txt', size: 5 });
    const content = await api.ProjectMarkdownUploads.download(project.id, listed?.id ?? 0);
    // The client returns text files as strings.
    expect(content).toBe('hello');
    const [, , secret = '', filename = ''] = made.url.split('/');
    await api.ProjectMarkdownUploads.remove(project.id, secret, filename);
    expect(await api.ProjectMarkdownUploads.all(project.id)).toEqual([]);
  });

  it('creates service accounts and rotates their tokens', async () => {
    const group = await app().make.group({}, owner);
    const account = await api.GroupServiceAccounts.create(group.id, { name: 'Deploys' });
    expect(account).toMatchObject({ name: 'Deploys', username: expect.stringMatching(/^service_account_group_/) });
    const token = await app()
      .as(owner)
      .post(`/groups/${group.id}/service_accounts/${account.id}/personal_access_tokens`, {
        name: 't',
        scopes: ['api'],
      });
    const rotated = await api.GroupServiceAccounts.rotatePersonalAccessToken(group.id, account.id, token.body.id);
    const machine = new Gitlab({ host: front.url, token: String(rotated.token) });
    expect(await machine.Users.showCurrentUser()).toMatchObject({ id: account.id });
  });
});
