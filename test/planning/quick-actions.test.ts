import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { takeQuickActions } from '#domains/planning/quick-actions.ts';
import { useApp } from '../support/app.ts';
import { computedMs } from '../support/computed-ms.ts';
import { makeScene } from './scene.ts';

const app = useApp();

describe('lines of quick actions', () => {
  it('are taken out, except inside code and for unknown words', () => {
    const text = 'A\n/label ~bug\n```\n/close\n```\n/nothing\n /close\n/CLOSE\n/draft\n/close \nB';
    expect(takeQuickActions(text, 'issue')).toEqual({
      text: 'A\n```\n/close\n```\n/nothing\n /close\n/CLOSE\n/draft\nB',
      actions: [
        { name: 'label', argument: '~bug' },
        { name: 'close', argument: '' },
      ],
    });
    expect(takeQuickActions('/weight 3\n/draft', 'merge_request')).toEqual({
      text: '/weight 3',
      actions: [{ name: 'draft', argument: '' }],
    });
  });

  it('know the commands of comments on merge requests only there', () => {
    const text = '/approve\n/submit_review approve';
    expect(takeQuickActions(text, 'merge_request')).toEqual({ text, actions: [] });
    expect(takeQuickActions(text, 'issue', true)).toEqual({ text, actions: [] });
    expect(takeQuickActions(text, 'merge_request', true).actions).toEqual([
      { name: 'approve', argument: '' },
      { name: 'submit_review', argument: 'approve' },
    ]);
  });

  it('leave all other text as it is', () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[^/\n][^\n]*$/), { maxLength: 10 }), (lines) => {
        expect(takeQuickActions(lines.join('\n'), 'issue')).toEqual({ text: lines.join('\n'), actions: [] });
      }),
    );
  });

  it.each(['/label ', '/', '/a', '\n/close', '`/close\n'])('are read in linear time in a megabyte of %j', (piece) => {
    const text = piece.repeat(Math.ceil(1_048_576 / piece.length));
    const started = computedMs();
    takeQuickActions(text, 'issue');
    expect(computedMs() - started).toBeLessThan(3_000);
  });
});

describe('quick actions of an issue', () => {
  it('run when it is opened, and when it changes', async () => {
    const { owner, people, path } = await makeScene(app());
    await owner.post(`${path}/milestones`, { title: 'Version 1' });
    const made = await owner.post(`${path}/issues`, {
      title: 'Old',
      labels: 'given,gone',
      description: [
        'Text',
        '/title New',
        '/label ~bug ~"needs work"',
        '/unlabel ~gone',
        `/assign @${people.guest.username} me`,
        `/unassign @${people.guest.username}`,
        '/milestone %"Version 1"',
        '/estimate 1d',
        '/spend 2h 2026-01-02',
        '/due 2030-01-01',
        '/weight 3',
        '/lock',
        '/unsubscribe',
        '/confidential',
      ].join('\n'),
    });
    expect(made).toMatchObject({
      status: 201,
      body: {
        title: 'New',
        description: 'Text',
        labels: ['bug', 'given', 'needs work'],
        assignees: [{ id: people.owner.id }],
        milestone: { title: 'Version 1' },
        time_stats: { time_estimate: 28_800, total_time_spent: 7_200 },
        due_date: '2030-01-01',
        weight: 3,
        discussion_locked: true,
        confidential: true,
        subscribed: false,
      },
    });
    const changed = await owner.put(`${path}/issues/1`, {
      description: [
        'More',
        '/relabel ~one',
        '/unassign',
        '/remove_milestone',
        '/remove_estimate',
        '/remove_time_spent',
        '/remove_due_date',
        '/clear_weight',
        '/unlock',
        '/subscribe',
        '/close',
      ].join('\n'),
    });
    expect(changed).toMatchObject({
      status: 200,
      body: {
        description: 'More',
        labels: ['one'],
        assignees: [],
        milestone: null,
        time_stats: { time_estimate: 0, total_time_spent: 0 },
        due_date: null,
        weight: null,
        discussion_locked: false,
        subscribed: true,
        state: 'closed',
      },
    });
    expect((await owner.put(`${path}/issues/1`, { description: '/reopen\n/unlabel' })).body).toMatchObject({
      state: 'opened',
      labels: [],
      description: '',
    });
    expect((await owner.post(`${path}/issues`, { title: 'x', description: '/close' })).body).toMatchObject({
      state: 'closed',
    });
  });

  it('are refused if they are more than a person writes', async () => {
    const { owner, path } = await makeScene(app());
    const refused = async (description: string) =>
      (await owner.post(`${path}/issues`, { title: 'x', description })).body;
    const message = '400 Bad request - at most 100 quick actions are allowed';
    expect(await refused('/milestone %x\n'.repeat(101))).toEqual({ message });
    const labels = Array.from({ length: 1_001 }, (_, index) => `~l${index}`).join(' ');
    expect(await refused(`/label ${labels}`)).toEqual({ message: { labels: ['may be at most 1000'] } });
    expect((await owner.get(`${path}/labels`)).body).toEqual([]);
    const users = await app().make.users(201);
    const all = users.map(({ username }) => `@${username}`).join(' ');
    await owner.put(path, { visibility: 'public' });
    expect(await refused(`/assign ${all}`)).toEqual({ message: { assignee_ids: ['may name at most 200 users'] } });
    const opened = await owner.post(`${path}/repository/commits`, {
      branch: 'topic',
      commit_message: 'x',
      actions: [{ action: 'create', file_path: 'a', content: 'a' }],
    });
    expect(opened.status).toBe(201);
    const made = await owner.post(`${path}/merge_requests`, {
      title: 'x',
      source_branch: 'topic',
      target_branch: 'main',
      description: `/assign_reviewer ${all}`,
    });
    expect(made.body).toEqual({ message: { reviewer_ids: ['may name at most 200 users'] } });
  });

  it('are refused to those who may not do the same without them', async () => {
    const { owner, guest, path } = await makeScene(app());
    const count = async () => (await owner.get(`${path}/issues`)).body.length;
    for (const line of ['/label ~bug', '/estimate 1h', '/lock']) {
      const refused = await guest.post(`${path}/issues`, { title: 'x', description: line });
      expect(refused).toMatchObject({ status: 403 });
    }
    for (const line of [
      '/estimate x',
      '/estimate -1h',
      '/milestone %none',
      '/due soon',
      '/weight x',
      '/spend 1h 2026-99-99',
    ]) {
      expect((await owner.post(`${path}/issues`, { title: 'x', description: line })).status).toBe(400);
    }
    expect(await count()).toBe(0);
    const own = await guest.post(`${path}/issues`, { title: 'x', description: '/title y\n/subscribe' });
    expect(own).toMatchObject({ status: 201, body: { title: 'y', description: '' } });
    const refused = await guest.put(`${path}/issues/1`, { description: 'z\n/label ~bug' });
    expect(refused.status).toBe(403);
    expect((await owner.get(`${path}/issues/1`)).body).toMatchObject({ description: '', labels: [] });
  });
});

describe('quick actions of a merge request', () => {
  it('run when it is opened, and when it changes', async () => {
    const { owner, people, path } = await makeScene(app(), { initialize_with_readme: true });
    for (const branch of ['feature', 'next']) await owner.post(`${path}/repository/branches`, { branch, ref: 'main' });
    const open = {
      source_branch: 'feature',
      target_branch: 'main',
      title: 'Add',
      description: [
        'Text',
        '/draft',
        '/target_branch next',
        '/label ~bug',
        '/assign me',
        `/assign_reviewer @${people.reporter.username}`,
        '/estimate 1h',
        '/spend 30m',
        '/lock',
        '/unsubscribe',
      ].join('\n'),
    };
    const made = await owner.post(`${path}/merge_requests`, open);
    expect(made).toMatchObject({
      status: 201,
      body: {
        title: 'Draft: Add',
        description: 'Text',
        target_branch: 'next',
        draft: true,
        labels: ['bug'],
        assignees: [{ id: people.owner.id }],
        reviewers: [{ id: people.reporter.id }],
        time_stats: { time_estimate: 3_600, total_time_spent: 1_800 },
        discussion_locked: true,
        subscribed: false,
      },
    });
    const changed = await owner.put(`${path}/merge_requests/1`, {
      description: `/ready\n/unassign_reviewer @${people.reporter.username}\n/unlabel ~bug\n/subscribe\n/close`,
    });
    expect(changed).toMatchObject({
      status: 200,
      body: {
        title: 'Add',
        draft: false,
        reviewers: [],
        labels: [],
        subscribed: true,
        state: 'closed',
        description: '',
      },
    });
    const closed = await owner.post(`${path}/merge_requests`, { ...open, description: '/close' });
    expect(closed).toMatchObject({ status: 201, body: { state: 'closed' } });
  });
});

describe('quick actions in comments', () => {
  it('run and vanish, and leave no comment if there is nothing else', async () => {
    const { owner, guest, stranger, people, project, path } = await makeScene(app(), { initialize_with_readme: true });
    await owner.post(`${path}/issues`, { title: 'A bug' });
    const at = `${path}/issues/1`;
    const bodies = async () =>
      (await owner.get(`${at}/notes?activity_filter=only_comments`)).body.map(({ body }: { body: string }) => body);
    const both = await owner.post(`${at}/notes`, { body: 'Done.\n/label ~done\n/assign me\n/close' });
    expect(both).toMatchObject({
      status: 201,
      body: { body: 'Done.', commands_changes: { add_labels: ['done'], state_event: 'close' } },
    });
    expect((await owner.get(`${at}/notes/${both.body.id}`)).body.commands_changes).toEqual({});
    expect((await owner.get(at)).body).toMatchObject({
      labels: ['done'],
      state: 'closed',
      assignees: [{ id: people.owner.id }],
    });
    const only = await owner.post(`${at}/notes`, { body: '/reopen\n/unsubscribe' });
    expect(only).toMatchObject({ status: 202, body: { commands_changes: { state_event: 'reopen' } } });
    expect((await owner.get(at)).body).toMatchObject({ state: 'opened', subscribed: false });
    expect(await bodies()).toEqual(['Done.']);

    expect((await guest.post(`${at}/notes`, { body: 'Hm\n/label ~other' })).status).toBe(403);
    expect((await stranger.post(`${at}/notes`, { body: '/subscribe' })).status).toBe(404);
    expect((await owner.post(`${at}/notes`, { body: 'Hm\n/estimate soon' })).status).toBe(400);
    expect(await bodies()).toEqual(['Done.']);
    expect((await owner.get(at)).body.labels).toEqual(['done']);

    const create = 'mutation ($input: CreateNoteInput!) { createNote(input: $input) { errors note { body } } }';
    const noteableId = `gid://gitlab/Issue/${(await owner.get(at)).body.id}`;
    const made = await owner.graphql(create, { input: { noteableId, body: '/estimate 1h' } });
    expect(made.data.createNote).toEqual({ errors: [], note: null });
    expect((await owner.get(at)).body.time_stats.time_estimate).toBe(3_600);

    await owner.post(`${path}/repository/branches`, { branch: 'feature', ref: 'main' });
    const opening = { source_branch: 'feature', target_branch: 'main', title: 'Add' };
    await owner.post(`${path}/merge_requests`, opening);
    const mr = `${path}/merge_requests/1`;
    const answer = await owner.post(`${mr}/notes`, { body: `/draft\n/assign_reviewer @${people.reporter.username}` });
    expect(answer.status).toBe(202);
    expect((await owner.get(mr)).body).toMatchObject({
      title: 'Draft: Add',
      project_id: project.id,
      reviewers: [{ id: people.reporter.id }],
    });
  });
});
