import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Api } from './api.ts';
import {
  CreateDemoIssueDocument,
  CreateGroupDocument,
  CreateProjectDocument,
  ProjectContentsDocument,
} from './operations/generated.ts';
import { formatBytes, type Steps } from './progress.ts';
import type { ReceivedHook, Receiver } from './receiver.ts';
import { listRefs, prepareRepository, push } from './source-repository.ts';
import { exportProject, importProject } from './transfers.ts';

export interface JourneyOptions {
  readonly url: string;
  readonly adminToken: string;
  readonly receiver: Receiver;
  /** A directory for clones and archives. */
  readonly scratch: string;
  readonly steps: Steps;
}

const ISSUES = 24;
const HOOK_TIMEOUT_MS = 20_000;
const BRANCH = 'main';

const user = z.object({ id: z.number(), username: z.string() });
const token = z.object({ token: z.string() });
const hook = z.object({ id: z.number(), signing_token: z.string() });
const pushHook = z.object({
  object_kind: z.literal('push'),
  ref: z.string(),
  total_commits_count: z.number(),
  project: z.object({ path_with_namespace: z.string() }),
});
const restProject = z.object({
  id: z.number(),
  name: z.string(),
  description: z.string().nullable(),
  path_with_namespace: z.string(),
  default_branch: z.string().nullable(),
  visibility: z.string(),
  web_url: z.string(),
  open_issues_count: z.number(),
});
const titled = z.array(z.object({ title: z.string() }));

/** Moves one project through a hub, using only public interfaces. Each step checks its result. */
export class Journey {
  readonly #options: JourneyOptions;
  readonly #admin: Api;
  #ada: Api;
  #adaToken = '';
  readonly #source = 'travellers/original';
  readonly #target = 'travellers/arrived';

  constructor(options: JourneyOptions) {
    this.#options = options;
    this.#admin = new Api(options.url, options.adminToken);
    this.#ada = this.#admin;
  }

  async travel({ repo, archive }: { readonly repo: string; readonly archive?: string }): Promise<void> {
    const { steps, scratch } = this.#options;
    await steps.run('Create a user, a group with a webhook, and a project', () => this.#settle());
    await steps.run(
      'Push a real history with git',
      async () => {
        const repository = await prepareRepository(repo, scratch);
        await push(repository, this.#gitUrl(this.#source), this.#adaToken, BRANCH);
        return repository;
      },
      ({ commits }) => `${commits} commits`,
    );
    await steps.run(
      'Receive the signed webhook of the push',
      () => this.#receivePush(),
      ({ headers }) => `delivery ${String(headers['webhook-id'])}`,
    );
    await steps.run(
      'Plan some work: labels, a milestone, issues and notes',
      () => this.#plan(),
      () => `${ISSUES} issues`,
    );
    const file = join(scratch, 'original.tar.gz');
    await steps.run(
      'Export, watching its progress, and download the archive',
      (step) => exportProject(this.#ada, this.#source, file, step),
      ({ size }) => formatBytes(size),
    );
    await steps.run(
      'Import the archive under another name, watching its progress',
      async (step) => {
        const result = await importProject(this.#ada, file, { path: 'arrived', namespace: 'travellers' }, step);
        must(
          result.failures.length === 0,
          `${result.failures.length} items failed: ${JSON.stringify(result.failures[0])}`,
        );
        return result;
      },
      ({ items }) => `${items} items`,
    );
    await steps.run('Compare both projects: refs, and the answers of GraphQL and REST', () => this.#compare());
    if (archive !== undefined) await this.#importGiven(archive);
  }

  /** Returns links to look at afterwards. */
  links(): [label: string, url: string][] {
    const { url } = this.#options;
    return [
      ['Original', `${url}/api/v4/projects/${encodeURIComponent(this.#source)}`],
      ['Arrived', `${url}/api/v4/projects/${encodeURIComponent(this.#target)}`],
      ['GraphQL explorer', `${url}/-/graphql-explorer`],
      ['API reference', `${url}/-/api-docs`],
    ];
  }

  async #settle(): Promise<void> {
    const { receiver, url } = this.#options;
    const hookUrl = await receiver.start();
    // The receiver is on loopback, which hooks may reach only if an administrator allows it.
    await this.#admin.rest(z.unknown(), 'PUT', '/application/settings', {
      allow_local_requests_from_web_hooks_and_services: true,
    });
    const ada = await this.#admin.rest(user, 'POST', '/users', {
      username: 'ada',
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      force_random_password: true,
      skip_confirmation: true,
    });
    const { token: value } = await this.#admin.rest(token, 'POST', `/users/${ada.id}/personal_access_tokens`, {
      name: 'demo',
      scopes: ['api'],
    });
    this.#adaToken = value;
    this.#ada = new Api(url, value);
    await this.#ada.graphql(CreateGroupDocument, { input: { name: 'Travellers', path: 'travellers' } });
    const secret = randomBytes(16).toString('hex');
    const created = await this.#ada.rest(hook, 'POST', '/groups/travellers/hooks', {
      url: hookUrl,
      token: secret,
      push_events: true,
      issues_events: true,
    });
    receiver.expect({ token: secret, signingToken: created.signing_token });
    await this.#ada.graphql(CreateProjectDocument, {
      input: {
        name: 'Original',
        path: 'original',
        namespacePath: 'travellers',
        description: 'A project that travels',
        defaultBranch: BRANCH,
      },
    });
  }

  async #receivePush(): Promise<ReceivedHook> {
    const { receiver } = this.#options;
    for (const deadline = performance.now() + HOOK_TIMEOUT_MS; performance.now() < deadline; ) {
      const received = receiver.hooks.find(({ headers }) => headers['x-gitlab-event'] === 'Push Hook');
      if (received) {
        must(received.problem === null, `the delivery is not authentic: ${received.problem}`);
        const body = pushHook.parse(received.body);
        must(body.ref === `refs/heads/${BRANCH}`, `the hook names ${body.ref}`);
        must(body.project.path_with_namespace === this.#source, `the hook names ${body.project.path_with_namespace}`);
        return received;
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    throw new Error('the webhook of the push did not arrive');
  }

  async #plan(): Promise<void> {
    const project = `/projects/${encodeURIComponent(this.#source)}`;
    for (const [name, color] of [
      ['bug', '#d9534f'],
      ['feature', '#5cb85c'],
      ['docs', '#428bca'],
    ]) {
      await this.#ada.rest(z.unknown(), 'POST', `${project}/labels`, { name, color });
    }
    const milestone = await this.#ada.rest(z.object({ id: z.number() }), 'POST', `${project}/milestones`, {
      title: 'First journey',
      due_date: '2030-01-31',
    });
    for (let number = 1; number <= ISSUES; number++) {
      if (number % 2 === 0) {
        await this.#ada.rest(z.unknown(), 'POST', `${project}/issues`, {
          title: `Issue ${number}`,
          description: `Created over REST.\n\n- [x] travelled\n- [ ] arrived`,
          labels: number % 4 === 0 ? 'bug,docs' : 'feature',
          milestone_id: milestone.id,
        });
      } else {
        await this.#ada.graphql(CreateDemoIssueDocument, {
          input: {
            projectPath: this.#source,
            title: `Issue ${number}`,
            description: 'Created over GraphQL.',
            labels: ['feature'],
          },
        });
      }
      if (number % 3 === 0) {
        await this.#ada.rest(z.unknown(), 'POST', `${project}/issues/${number}/notes`, {
          body: `A remark on issue ${number}.`,
        });
      }
    }
    await this.#ada.rest(z.unknown(), 'PUT', `${project}/issues/1`, { state_event: 'close' });
  }

  async #compare(): Promise<void> {
    const refs = await Promise.all(
      [this.#source, this.#target].map((path) => listRefs(this.#gitUrl(path), this.#adaToken)),
    );
    must(refs[0] !== '' && refs[0] === refs[1], 'the refs of the imported repository differ');

    const [before, after] = await Promise.all(
      [this.#source, this.#target].map((fullPath) => this.#ada.graphql(ProjectContentsDocument, { fullPath })),
    );
    const contents = after?.project;
    if (!contents || !before?.project) throw new Error('a project cannot be read over GraphQL');
    const { name: _before, fullPath: _from, ...original } = before.project;
    const { name, fullPath, ...arrived } = contents;
    must(
      isDeepStrictEqual(original, arrived),
      `the contents differ:\n${JSON.stringify(original)}\n${JSON.stringify(arrived)}`,
    );

    const path = `/projects/${encodeURIComponent(this.#target)}`;
    const rest = await this.#ada.rest(restProject, 'GET', path);
    must(rest.name === name && rest.path_with_namespace === fullPath, 'REST and GraphQL name the project differently');
    must(
      rest.description === contents.description && rest.visibility === contents.visibility,
      'REST and GraphQL differ',
    );
    must(rest.open_issues_count === contents.openIssuesCount, 'REST and GraphQL count issues differently');
    const issues = await this.#ada.rest(
      titled,
      'GET',
      `${path}/issues?per_page=100&order_by=created_at&sort=asc&scope=all`,
    );
    const titles = (contents.issues?.nodes ?? []).flatMap((issue) => (issue ? [issue.title] : []));
    must(issues.length === ISSUES, `${issues.length} of ${ISSUES} issues arrived`);
    must(
      isDeepStrictEqual(issues.map(({ title }) => title).sort(), titles.sort()),
      'REST and GraphQL list different issues',
    );
  }

  async #importGiven(archive: string): Promise<void> {
    await this.#options.steps.run(
      `Import ${archive}`,
      (step) => importProject(this.#admin, archive, { path: 'given', namespace: 'travellers' }, step),
      ({ items, failures }) => `${items} items, ${failures.length} failed`,
    );
  }

  #gitUrl(path: string): string {
    return `${this.#options.url}/${path}.git`;
  }
}

function must(holds: boolean, problem: string): asserts holds {
  if (!holds) throw new Error(problem);
}
