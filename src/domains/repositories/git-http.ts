import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { withClosedGroups } from '#domains/access/restrictions.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { throttle } from '#domains/settings/throttles.ts';
import { authenticate, authenticateGit } from '#domains/tokens/authentication.ts';
import { stillValid } from '#domains/tokens/still-valid.ts';
import type { Actor, Context, Services } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { DomainError, forbidden, notFound } from '#platform/errors.ts';
import { withMessages } from '#platform/git/http/receive-report.ts';
import { decodedBody } from '#platform/git/http/request-body.ts';
import type { RefRefusal, RefUpdate, Served, Service } from '#platform/git/http.ts';
import type { NewObjects } from '#platform/git/objects.ts';
import { splitTarget } from '#platform/urls.ts';
import { isStorable } from '#platform/values/storable.ts';
import { readCredential } from '#rest/auth.ts';
import { routerPaths } from '#rest/wildcards.ts';
import { onlyBranches } from './collaboration.ts';
import { FetchCounter } from './fetches.ts';
import { findRepository, mayJobPush } from './git-access.ts';
import { answerError, noCache } from './git-http/answers.ts';
import { carryOut } from './options-due.ts';
import { judgePush } from './policy.ts';
import { type PushOptions, readPushOptions } from './push-options.ts';
import { type HeldPush, holdPush, recordPush, settleDeadPushes, settleLater, settlePush } from './pushes.ts';

const SETTLE_EVERY_MS = 5_000;

/** Mounts git's smart HTTP protocol below `/<full path>.git` and `/<alias>.git`: clone, fetch and push. */
export const mountGit = (fastify: FastifyInstance, { services }: { readonly services: Services }): void => {
  // Packs bypass all parsers and their limits.
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  fastify.setErrorHandler((error, request, reply) => answerError(services, error, request, reply));

  const counter = new FetchCounter(services);
  for (const path of routerPaths('/*path/')) {
    fastify.get(`${path}info/refs`, async (request, reply) => {
      const repository = repositoryPath(request);
      if (repository !== null) return advertise(services, request, reply, repository);
      const suffixed = withSuffix(request);
      return suffixed === null ? reply.callNotFound() : reply.redirect(suffixed, 301);
    });
    for (const service of ['git-upload-pack', 'git-receive-pack'] as const) {
      fastify.post(`${path}${service}`, async (request, reply) => {
        const repository = repositoryPath(request);
        return repository === null
          ? reply.callNotFound()
          : serve(services, counter, request, reply, repository, service);
      });
    }
  }

  const settle = () =>
    settleDeadPushes(services).catch((error: unknown) =>
      services.log.warn({ err: error }, 'could not look for interrupted pushes; trying again'),
    );
  let settling: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  fastify.addHook('onListen', async () => {
    timer = setInterval(() => {
      settling = settling.then(settle);
    }, SETTLE_EVERY_MS);
    timer.unref();
  });
  fastify.addHook('onClose', async () => {
    clearInterval(timer);
    await settling;
    await counter.flush();
  });
};

const advertise = async (services: Services, request: FastifyRequest, reply: FastifyReply, path: string) => {
  const asked = askedService(request);
  if (asked === null) {
    throw forbidden('only the smart HTTP protocol is supported; use a newer git');
  }
  const ctx = await openContext(services, request);
  const found = await findRepository(ctx, path, asked);
  if ('movedTo' in found) {
    return reply.redirect(`/${found.movedTo}.git/info/refs?service=${asked}`, 301);
  }
  const stream = await services.git.advertise(found.project.disk_path, asked, {
    gitProtocol: headerOf(request, 'git-protocol'),
    signal: ctx.signal,
  });
  return noCache(reply).type(`application/x-${asked}-advertisement`).send(stream);
};

const serve = async (
  services: Services,
  counter: FetchCounter,
  request: FastifyRequest,
  reply: FastifyReply,
  path: string,
  service: Service,
) => {
  if (headerOf(request, 'content-type')?.toLowerCase() !== `application/x-${service}-request`) {
    return reply.code(415).type('text/plain').send(`The content type must be application/x-${service}-request\n`);
  }
  const ctx = await openContext(services, request);
  const found = await findRepository(ctx, path, service);
  if ('movedTo' in found) throw notFound('Project');
  const body = decodedBody(request.raw, headerOf(request, 'content-encoding'));
  const { receive_max_input_size: maxMebibytes } = await getSettings(ctx);
  const options = {
    gitProtocol: headerOf(request, 'git-protocol'),
    signal: ctx.signal,
    maxInputBytes: maxMebibytes * 1024 * 1024 || undefined,
  };
  const { git } = services;
  const stream =
    service === 'git-upload-pack'
      ? fetched(
          ctx,
          () => counter.add(found.project.id),
          await git.serve(found.project.disk_path, service, body, options),
        )
      : await receive(ctx, found.project, (push) =>
          git.serve(found.project.disk_path, service, body, { ...options, ...push }),
        );
  return noCache(reply).type(`application/x-${service}-result`).send(stream);
};

const fetched = (ctx: Context, count: () => void, { stream, done }: Served): Readable => {
  done.then(
    ({ sentObjects }) => sentObjects && count(),
    // Git has informed the client. The log informs operators.
    (error: unknown) => {
      if (!ctx.signal.aborted) ctx.log.warn({ err: error }, 'a fetch failed');
    },
  );
  return stream;
};

interface PushHandlers {
  onRefUpdates(updates: readonly RefUpdate[], pushOptions: readonly string[]): ReturnType<typeof judgePush>;
  onReceived(objects: NewObjects): Promise<readonly RefRefusal[]>;
}

/** Marks the push of a job, which creates no pipelines. Clients cannot send this option. */
const withJob = ({ actor: { job } }: Context, options: PushOptions): PushOptions =>
  job === undefined ? options : { ...options, job: { id: String(job.id) } };

/** Handles a push. The response ends after the events are written, so the client can read them at once. */
const receive = async (
  ctx: Context,
  project: ProjectRow,
  start: (options: PushHandlers) => Promise<Served>,
): Promise<Readable> => {
  let asked: readonly RefUpdate[] = [];
  let options: PushOptions = {};
  let held: HeldPush | null = null;
  const served = await start({
    onRefUpdates: async (updates, given) => {
      asked = updates;
      const read = readPushOptions(given);
      options = withJob(ctx, read.options);
      return { ...(await judgePush(ctx, project, updates, null)), messages: read.messages };
    },
    onReceived: async (objects) => {
      const refused = await judgeAgain(ctx, project, asked, objects);
      if (refused.length > 0) return refused;
      try {
        held = await holdPush(ctx, project, asked, options);
      } catch (error) {
        if (error instanceof DomainError) return asked.map(({ ref }) => ({ ref, reason: error.message }));
        throw error;
      }
      return [];
    },
  });
  const recorded = served.done
    .then(
      async ({ updates }) => {
        if (!held) return [];
        await recordPush(ctx, held, updates);
        return carryOut(ctx, held, updates);
      },
      async (error: unknown) => {
        // git may have ended half-way. The refs show how far it came.
        if (held) await settlePush(ctx.services, held.id);
        if (!ctx.signal.aborted) ctx.log.warn({ err: error, project_id: project.id }, 'a push failed');
        return [];
      },
    )
    .catch((error: unknown) => {
      ctx.log.error({ err: error, project_id: project.id }, 'a push could not be recorded; it is settled later');
      if (held) settleLater(ctx.services, held.id);
      return [];
    });
  return Readable.from(withMessages(served, recorded), { objectMode: false });
};

/**
 * Checks permissions again, because a push can take hours to arrive. The permissions at the time when refs move count.
 */
const judgeAgain = async (
  ctx: Context,
  project: ProjectRow,
  updates: readonly RefUpdate[],
  objects: NewObjects,
): Promise<readonly RefRefusal[]> => {
  const refuseAll = (reason: string) => updates.map(({ ref }) => ({ ref, reason }));
  if (!(await stillValid(ctx.services, [ctx.actor])).has(0)) return refuseAll('the credential is no longer valid');
  const [actor = ctx.actor] = await withClosedGroups(ctx.services, [ctx.actor]);
  const now = await findProject({ ...ctx, actor }, { id: project.id });
  if (!now || (await onlyBranches(ctx, now))?.size === 0 || !mayJobPush(ctx, now))
    return refuseAll('you are no longer allowed to push to this project');
  const refused = (await judgePush(ctx, now, updates, objects)).refused ?? [];
  return refused.length > 0 ? refused : refusalsOfSize(ctx, updates, objects);
};

/** Refuses trees with too many files. Repeating one folder makes them cheap to push but expensive to read. */
const refusalsOfSize = async (
  ctx: Context,
  updates: readonly RefUpdate[],
  objects: NewObjects,
): Promise<readonly RefRefusal[]> => {
  const { push_max_files: atMost } = await getSettings(ctx);
  const tips = updates.flatMap(({ newOid }) => newOid ?? []);
  const beyond = atMost === 0 || tips.length === 0 ? null : await objects.tipBeyond(tips, atMost);
  return updates.flatMap(({ ref, newOid }) =>
    newOid !== null && newOid === beyond ? [{ ref, reason: `it has more than ${atMost} files and folders` }] : [],
  );
};

const openContext = async (services: Services, request: FastifyRequest): Promise<Context> => {
  const { ip } = request;
  const client = { ip, userAgent: headerOf(request, 'user-agent') ?? null };
  const count = (actor: Actor | null) =>
    throttle(services, {
      actor,
      ip,
      web: true,
      setHeader: (name, value) => request.response?.setHeader(name, value),
    });
  let actor: Actor;
  try {
    const credential = readCredential(request.headers, {});
    actor =
      credential.kind === 'basic'
        ? await authenticateGit(services, credential, client)
        : await authenticate(services, credential, { sudo: null, ...(client.ip === null ? {} : { ip: client.ip }) });
  } catch (error) {
    await count(null);
    throw error;
  }
  await count(actor);
  request.userId = actor.userId;
  request.abortController ??= new AbortController();
  const { signal } = request.abortController;
  return createContextFactory(services)({ actor, requestId: request.id, client, signal });
};

const askedService = (request: FastifyRequest): Service | null => {
  const { query } = splitTarget(request.raw.url ?? '');
  const asked = new URLSearchParams(query).get('service');
  return asked === 'git-upload-pack' || asked === 'git-receive-pack' ? asked : null;
};

/** Returns `group/project` for `/group/project.git/...`, an alias for `/alias.git/...`, and null for other URLs. */
const repositoryPath = (request: FastifyRequest): string | null => {
  const path = pathOf(request);
  return path?.endsWith('.git') ? path.slice(0, -4) : null;
};

/**
 * Returns the address with `.git` for one without it, so that git can clone the URL of a project's page. It does not
 * look for the project: the answer says nothing about it. Null for URLs that git does not ask for.
 */
const withSuffix = (request: FastifyRequest): string | null => {
  const asked = askedService(request);
  const path = pathOf(request);
  if (asked === null || path === null || path.endsWith('.git')) return null;
  return `/${path.split('/').map(encodeURIComponent).join('/')}.git/info/refs?service=${asked}`;
};

/** Returns the path before `/info/refs` and the like; null if no project could have it. */
const pathOf = ({ params }: FastifyRequest): string | null => {
  const segments = typeof params === 'object' && params !== null ? Object.values(params).map(String) : [];
  const path = segments.join('/');
  const isPath = path.length <= 1_024 && isStorable(path);
  return isPath && segments.every((segment) => segment !== '' && !segment.includes('/')) ? path : null;
};

const headerOf = ({ headers }: FastifyRequest, name: string): string | undefined => [headers[name]].flat()[0];
