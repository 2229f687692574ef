import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { makeMergeRequest } from './merge-scene.ts';

const app = useApp();

describe('a project that demands a form of titles', () => {
  it('merges only merge requests with such a title', async () => {
    const { owner, at, path, project } = await makeMergeRequest(app());
    const demand = { merge_request_title_regex: '^(feat|fix): ', merge_request_title_regex_description: 'Say what' };
    expect((await owner.put(path, demand)).body).toMatchObject(demand);
    expect((await owner.get(at)).body.detailed_merge_status).toBe('title_regex');
    const { data } = await owner.graphql(
      `query ($path: ID!) { project(fullPath: $path) { mergeRequestTitleRegex mergeRequestTitleRegexDescription
        mergeRequest(iid: "1") { mergeable detailedMergeStatus } } }`,
      { path: project.path_with_namespace },
    );
    expect(data.project).toEqual({
      mergeRequestTitleRegex: '^(feat|fix): ',
      mergeRequestTitleRegexDescription: 'Say what',
      mergeRequest: { mergeable: false, detailedMergeStatus: 'TITLE_NOT_MATCHING' },
    });
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    // A draft is a draft first.
    await owner.put(at, { title: 'Draft: Add two files' });
    expect((await owner.get(at)).body.detailed_merge_status).toBe('draft_status');
    await owner.put(at, { title: 'Add two files' });
    expect((await owner.put(`${at}/merge`, { auto_merge: true })).body.state).toBe('opened');
    await owner.put(at, { title: 'feat: Add two files' });
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('merged');
  });

  it('may drop the pattern, and cannot set one that takes long', async () => {
    const { owner, maintainer, reporter, at, path } = await makeMergeRequest(app());
    const demand = (merge_request_title_regex: string | null) => ({ merge_request_title_regex });
    for (const wrong of ['(', '(a{30}){30}', 'x'.repeat(256)]) {
      expect([wrong, (await owner.put(path, demand(wrong))).status]).toEqual([wrong, 400]);
    }
    expect((await reporter.put(path, demand('.'))).status).toBe(403);
    expect((await owner.get(path)).body.merge_request_title_regex).toBeNull();
    for (const none of ['', null]) {
      await maintainer.put(path, demand('^feat'));
      expect((await owner.get(at)).body.detailed_merge_status).toBe('title_regex');
      expect((await maintainer.put(path, demand(none))).status).toBe(200);
      expect((await owner.get(at)).body.detailed_merge_status).toBe('mergeable');
    }
  });
});
