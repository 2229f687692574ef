import { basename } from 'node:path';
import { Command, Option } from 'commander';
import { VERSION } from '#platform/process/version.ts';
import { Api, ApiError } from './api.ts';
import {
  CreateGroupDocument,
  CreateProjectDocument,
  CurrentUserDocument,
  FollowEventsDocument,
  ListProjectsDocument,
  type ListProjectsQuery,
} from './operations/generated.ts';
import { formatBytes, Steps } from './progress.ts';
import { getSettings, setSettings } from './settings.ts';
import { exportProject, importProject } from './transfers.ts';

const DEFAULT_URL = 'http://127.0.0.1:8080';

/** The command line client: `npm run millrace -- COMMAND`. It uses only public interfaces, like any other tool. */
const program = new Command('millrace')
  .description('Talk to a Millrace hub. The URL and token come from the options or their environment variables.')
  .version(VERSION)
  .addOption(new Option('--url <url>', 'the hub').env('MILLRACE_URL').default(DEFAULT_URL))
  .addOption(new Option('--token <token>', 'a personal access token with scope api').env('MILLRACE_TOKEN'))
  .showHelpAfterError();

const api = (): Api => {
  const { url, token } = program.opts<{ url: string; token?: string }>();
  if (!token) program.error('A token is required: set MILLRACE_TOKEN or pass --token.');
  return new Api(url, token ?? '');
};

program
  .command('whoami')
  .description('show the owner of the token')
  .action(async () => {
    const { currentUser } = await api().graphql(CurrentUserDocument, {});
    console.log(currentUser ? `${currentUser.username} (${currentUser.name})` : 'nobody: the token is unknown');
  });

program
  .command('projects')
  .description('list the projects you belong to')
  .argument('[search]', 'part of a name or path')
  .action(async (search?: string) => {
    const hub = api();
    let after: string | null = null;
    do {
      const { projects }: ListProjectsQuery = await hub.graphql(ListProjectsDocument, {
        search: search ?? null,
        after,
      });
      for (const project of projects?.nodes ?? []) {
        if (project)
          console.log(`${project.fullPath}\t${project.visibility ?? ''}\t${project.description ?? ''}`.trimEnd());
      }
      after = projects?.pageInfo.hasNextPage ? (projects.pageInfo.endCursor ?? null) : null;
    } while (after !== null);
  });

program
  .command('create-group')
  .description('create a group')
  .argument('<path>', 'its full path, such as tools or tools/forge')
  .action(async (path: string) => {
    const { parent, name } = splitPath(path);
    const { groupCreate } = await api().graphql(CreateGroupDocument, {
      input: { name, path: name, parentPath: parent },
    });
    console.log(groupCreate?.group?.webUrl ?? '');
  });

program
  .command('create-project')
  .description('create an empty project and show the URL to push to')
  .argument('<path>', 'its full path, such as tools/forge; a bare name creates it in your own namespace')
  .action(async (path: string) => {
    const { parent, name } = splitPath(path);
    const { projectCreate } = await api().graphql(CreateProjectDocument, {
      input: { name, path: name, namespacePath: parent },
    });
    console.log(projectCreate?.project?.httpUrlToRepo ?? '');
  });

program
  .command('export')
  .description('export a project and save the archive, showing its progress; continues after an interruption')
  .argument('<project>', 'its full path')
  .option('-o, --output <file>', 'where to write the archive')
  .action(async (project: string, { output }: { output?: string }) => {
    const file = output ?? `${project.replaceAll('/', '_')}_export.tar.gz`;
    await new Steps().run(
      `Export ${project}`,
      (step) => exportProject(api(), project, file, step),
      ({ size }) => `${file}, ${formatBytes(size)}`,
    );
  });

program
  .command('import')
  .description('import an archive as a new project, showing its progress; continues after an interruption')
  .argument('<file>', 'the archive')
  .argument('[project]', 'the path of the new project; by default after the file')
  .option('--to <group>', 'the full path of its group; by default your own namespace')
  .action(async (file: string, project: string | undefined, { to }: { to?: string }) => {
    const { parent, name } = splitPath(project ?? basename(file).replace(/(?:_export)?\.tar\.gz$/, ''));
    const namespace = to === undefined ? parent : parent === null ? to : `${to}/${parent}`;
    const { failures } = await new Steps().run(
      `Import ${name}`,
      (step) => importProject(api(), file, { path: name, namespace }, step),
      (result) => `${result.items} items, ${result.failures.length} failed`,
    );
    for (const { relation, line, message } of failures) console.error(`${relation} line ${line}: ${message}`);
  });

program
  .command('events')
  .description('follow events, one JSON object per line, until interrupted')
  .option('--project <path>', 'only events of this project')
  .option('--group <path>', 'only events of this group and everything below it')
  .option('--kind <kind...>', 'only these kinds, such as push.received')
  .option('--after <cursor>', 'continue after this cursor')
  .action(async (options: { project?: string; group?: string; kind?: string[]; after?: string }) => {
    const abort = new AbortController();
    process.once('SIGINT', () => abort.abort());
    const variables = {
      scope: { projectPath: options.project ?? null, groupPath: options.group ?? null },
      kinds: options.kind ?? null,
      after: options.after ?? null,
    };
    try {
      const stream = await api().subscribe(FollowEventsDocument, variables, abort.signal);
      for await (const { events } of stream) console.log(JSON.stringify(events));
    } catch (error) {
      if (!abort.signal.aborted) throw error;
    }
  });

const settings = program
  .command('settings')
  .description('show and change the settings of the instance (administrators)');

settings
  .command('get')
  .description('show all settings, or the value of one')
  .argument('[name]', 'its name, such as max_import_size')
  .action(async (name?: string) => {
    for (const line of await getSettings(api(), name)) console.log(line);
  });

settings
  .command('set')
  .description('change settings, all of them or none, and show their new values')
  .argument('<assignment...>', 'NAME=VALUE, or NAME=- to read the value from standard input')
  .action(async (assignments: string[]) => {
    for (const line of await setSettings(api(), assignments)) console.log(line);
  });

/** Splits `a/b/c` into `a/b` and `c`. The parent is null without a slash. */
const splitPath = (path: string): { readonly parent: string | null; readonly name: string } => {
  const slash = path.lastIndexOf('/');
  return slash < 0 ? { parent: null, name: path } : { parent: path.slice(0, slash), name: path.slice(slash + 1) };
};

program.parseAsync().catch((error: unknown) => {
  console.error(error instanceof ApiError ? error.message : error);
  process.exit(1);
});
