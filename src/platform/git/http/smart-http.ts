import { PassThrough } from 'node:stream';
import type { Release } from '../../caller/turns.ts';
import type { PushVerdict, RefRefusal, RefUpdate, Served, ServeOptions, ServeResult } from '../http.ts';
import { createNewObjects } from '../objects/new-objects.ts';
import type { ObjectReader } from '../objects/reader.ts';
import { feed, writable } from '../process/input.ts';
import type { GitProcess, Runner } from '../process/runner.ts';
import { streamOf } from '../process/stream.ts';
import type { Git } from '../types.ts';
import type { IncomingHook } from './incoming-hook.ts';
import { createPackWatch } from './pack-watch.ts';
import { FLUSH, packet, sideBand } from './pkt-line.ts';
import { type ReceiveCommands, readReceiveCommands, refuseForeignRefs } from './receive-commands.ts';
import { createReportReader, refusalReport, terminalLines, updatesSeen } from './receive-report.ts';
import { drain, hold, limited, unlessIdle, untilBroken } from './request-body.ts';

type SmartHttp = Pick<Git, 'advertise' | 'serve'>;

/** The client neither takes nor sends anything for this long. git itself sends something every five seconds. */
const FETCH_IDLE_MS = 2 * 60_000;
/** Longer, because clients build their packs in this time. */
const PUSH_IDLE_MS = 10 * 60_000;
const ADVERTISE_TIMEOUT_MS = 5 * 60_000;
/** Wants and haves take 50 bytes each, so this allows more than a million of them. */
const MAX_FETCH_REQUEST_BYTES = 64 * 1024 * 1024;

const UPLOAD_CONFIG = ['uploadpack.allowFilter=true', 'uploadpack.hideRefs=refs/keep-around/'];

/** Problems that other hosts tolerate too, because old tools created many such objects. */
const FSCK_TOLERATED = ['badTimezone', 'missingSpaceBeforeDate', 'zeroPaddedFilemode'] as const;

/** The same tolerance for `index-pack`. */
export const STRICT = `--strict=${FSCK_TOLERATED.map((problem) => `${problem}=ignore`).join(',')}`;

const RECEIVE_CONFIG = [
  'receive.fsckObjects=true',
  ...FSCK_TOLERATED.map((problem) => `receive.fsck.${problem}=ignore`),
  'receive.autogc=false',
  'receive.updateServerInfo=false',
  'receive.advertisePushOptions=false',
  'receive.denyCurrentBranch=ignore',
  'receive.denyDeleteCurrent=ignore',
  'receive.hideRefs=refs/',
  'receive.hideRefs=!refs/heads/',
  'receive.hideRefs=!refs/tags/',
  'receive.hideRefs=!refs/notes/',
];

export const createSmartHttp = (
  runner: Runner,
  hook: IncomingHook,
  objects: ObjectReader,
  refs: Pick<Git, 'resolve'>,
): SmartHttp => {
  const serveFetch = async (path: string, source: AsyncIterator<Buffer>, options: ServeOptions): Promise<Served> => {
    const request = await hold(source, options.idleTimeoutMs ?? FETCH_IDLE_MS);
    return releasedOnFailure(await runner.bounds.fetches.take(options.signal), (release) =>
      uploadPack(path, request, options, release),
    );
  };

  const uploadPack = async (
    path: string,
    request: AsyncIterator<Buffer>,
    options: ServeOptions,
    release: Release,
  ): Promise<Served> => {
    const git = await runner.launch(path, ['upload-pack', '--strict', '--stateless-rpc', runner.directory(path)], {
      config: UPLOAD_CONFIG,
      env: protocolEnv(options.gitProtocol),
    });
    const stream = new PassThrough();
    const watch = watchIdle(git, stream, options.idleTimeoutMs ?? FETCH_IDLE_MS);
    options.signal?.addEventListener('abort', () => git.kill('aborted'), { once: true });
    if (options.signal?.aborted) git.kill('aborted');
    stream.once('close', () => git.kill('aborted'));
    const fed = feed(git, limited(watch.through(request), MAX_FETCH_REQUEST_BYTES));
    const done = (async (): Promise<ServeResult> => {
      try {
        const pack = createPackWatch();
        const onChunk = (chunk: Buffer) => {
          watch.touch();
          pack.push(chunk);
        };
        const [exitCode] = await Promise.all([git.exited, fed, forward(git, stream, onChunk)]);
        if (exitCode !== 0) throw git.failure(exitCode);
        stream.end();
        return { updates: [], refused: [], sentObjects: pack.seen() };
      } catch (error) {
        // If it could, git has told the client already. The protocol detects a truncated response.
        stream.end();
        throw error;
      } finally {
        watch.stop();
        release();
      }
    })();
    return { stream, done: observed(done) };
  };

  const servePush = async (path: string, source: AsyncIterator<Buffer>, options: ServeOptions): Promise<Served> => {
    const push = await readReceiveCommands(source);
    // An empty request: git sends it first to find out whether a large push would be accepted.
    if (push.updates.length === 0) return answered(Buffer.alloc(0), { updates: [], refused: [] });
    const verdict = await judge(push, options);
    const refused = verdict.refused ?? [];
    if (refused.length > 0) {
      await drain(push.body, options);
      return answered(refusalReport(push, refused, verdict.messages ?? []), { updates: [], refused });
    }
    // Waits here, because a process started now would only wait for the pack.
    await unlessIdle(push.awaitPack(), options.idleTimeoutMs ?? PUSH_IDLE_MS);
    return releasedOnFailure(await runner.bounds.pushes.take(options.signal), (release) =>
      receive(path, push, verdict, options, release),
    );
  };

  const receive = async (
    path: string,
    push: ReceiveCommands,
    verdict: PushVerdict,
    options: ServeOptions,
    release: Release,
  ): Promise<Served> => {
    const held = new Set(verdict.fastForwardOnly);
    const rewritable = push.updates.filter(
      ({ ref, oldOid, newOid }) => held.has(ref) && oldOid !== null && newOid !== null,
    );
    const checked = push.isWhole || rewritable.length > 0 || options.onReceived !== undefined;
    const hooks = push.isWhole ? hook.manyRefsConfig : checked ? hook.config : [];
    const git = await runner.launch(path, ['receive-pack', '--stateless-rpc', runner.directory(path)], {
      config: [...RECEIVE_CONFIG, `receive.maxInputSize=${options.maxInputBytes ?? 0}`, ...hooks],
      channel: checked,
    });
    const refusedHere: RefRefusal[] = [];
    if (checked) {
      hook.attend(git, async (incoming) => {
        refusedHere.push(...(await rewritten(runner, path, rewritable, incoming.env)));
        if (refusedHere.length === 0 && options.onReceived) {
          refusedHere.push(...(await options.onReceived(createNewObjects(runner, objects, path, incoming.env))));
        }
        return refusedHere.length === 0 ? null : terminalLines(refusedHere, []);
      });
    }
    const stream = new PassThrough();
    const watch = watchIdle(git, stream, options.idleTimeoutMs ?? PUSH_IDLE_MS);
    const report = createReportReader(push.capabilities);
    if (verdict.messages && push.capabilities.has('side-band-64k')) {
      stream.write(sideBand(2, Buffer.from(terminalLines([], verdict.messages))));
    }
    const fed = feed(git, untilBroken(watch.through(push.body[Symbol.asyncIterator]())));
    const done = (async (): Promise<ServeResult> => {
      try {
        const [exitCode] = await Promise.all([
          git.exited,
          fed,
          forward(
            git,
            stream,
            (chunk) => {
              watch.touch();
              report.push(chunk);
            },
            report.remark,
          ),
        ]);
        const said = report.result();
        const updated = said?.updated ?? (await updatesSeen(push.updates, (ref) => refs.resolve(path, ref)));
        const updates = push.updates.filter(({ ref }) => updated.has(ref));
        if (updates.length === 0 && (exitCode !== 0 || watch.gaveUp())) throw git.failure(exitCode);
        return { updates, refused: refusedHere.length > 0 ? refusedHere : (said?.refused ?? []) };
      } finally {
        stream.end();
        watch.stop();
        release();
        // Not awaited: the moved refs are known and must be recorded.
        void drain(push.body, options);
      }
    })();
    return { stream, done: observed(done), hasSideBand: push.capabilities.has('side-band-64k') };
  };

  return {
    async advertise(path, service, { gitProtocol, ...call } = {}) {
      const upload = service === 'git-upload-pack';
      // Push options are read here. git does not get to see them.
      const config = upload ? UPLOAD_CONFIG : [...RECEIVE_CONFIG, 'receive.advertisePushOptions=true'];
      // The push protocol has no version 2.
      const env = upload ? protocolEnv(gitProtocol) : {};
      const args = [service.slice(4), '--stateless-rpc', '--http-backend-info-refs', runner.directory(path)];
      const release = await runner.bounds.fetches.take(call.signal);
      const git = runner.launch(path, args, { config, env, input: '' });
      // Like git's own http-backend, which omits the service header in version 2.
      const before = env.GIT_PROTOCOL === 'version=2' ? [] : [packet(`# service=${service}\n`), FLUSH];
      const stream = streamOf(git, {
        timeoutMs: ADVERTISE_TIMEOUT_MS,
        idleTimeoutMs: FETCH_IDLE_MS,
        ...call,
        before: Buffer.concat(before),
      });
      stream.once('close', release);
      return stream;
    },

    async serve(path, service, body, options = {}) {
      // The body must stay open: destroying it would close the connection before the response is sent.
      const source: AsyncIterator<Buffer> = body.iterator({ destroyOnReturn: false });
      if (service === 'git-upload-pack') return serveFetch(path, source, options);
      return servePush(path, source, options);
    },
  };
};

const protocolEnv = (header: string | undefined): { GIT_PROTOCOL?: string } => {
  const version = /(?:^|:)(version=[012])(?:$|:)/.exec(header ?? '')?.[1];
  return version === undefined ? {} : { GIT_PROTOCOL: version };
};

const judge = async (push: ReceiveCommands, options: ServeOptions): Promise<PushVerdict> => {
  const refused = refuseForeignRefs(push.updates);
  if (refused.length > 0) return { refused };
  return (await options.onRefUpdates?.(push.updates, push.pushOptions)) ?? {};
};

/** Returns refusals for the updates that would drop commits: the old commit is not an ancestor of the new one. */
const rewritten = async (
  runner: Runner,
  path: string,
  updates: readonly RefUpdate[],
  env: Readonly<Record<string, string>>,
): Promise<RefRefusal[]> => {
  const refusals: RefRefusal[] = [];
  for (const { ref, oldOid, newOid } of updates) {
    if (oldOid === null || newOid === null) continue;
    const { exitCode } = await runner.run(path, ['merge-base', '--is-ancestor', oldOid, newOid], { env, allow: [1] });
    if (exitCode === 1) refusals.push({ ref, reason: 'force push is not allowed' });
  }
  return refusals;
};

/** Forwards the output while the stream accepts it, and always reads it to the end. */
const forward = async (
  git: GitProcess,
  stream: PassThrough,
  onChunk: (chunk: Buffer) => void,
  /** Returns a message to send right after the chunk, if any. */
  remark: () => Buffer | null = () => null,
): Promise<void> => {
  for await (const chunk of git.stdout) {
    if (!Buffer.isBuffer(chunk)) continue;
    onChunk(chunk);
    if (!stream.destroyed && !stream.write(chunk)) await writable(stream);
    const said = remark();
    if (said !== null && !stream.destroyed) stream.write(said);
  }
};

const watchIdle = (git: GitProcess, stream: PassThrough, idleTimeoutMs: number) => {
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  const giveUp = () => {
    over = true;
    git.giveUp('timeout');
    stream.destroy(); // a client that does not read it would block everything
  };
  const touch = () => {
    if (timer) timer.refresh();
    else timer = setTimeout(giveUp, idleTimeoutMs);
  };
  touch();
  return {
    touch,
    gaveUp: () => over,
    stop: () => clearTimeout(timer),
    async *through(source: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
      for (let step = await source.next(); !step.done; step = await source.next()) {
        touch();
        yield step.value;
      }
    },
  };
};

/** Runs `start`, which releases the slot when its work is done. Releases it here if `start` fails. */
const releasedOnFailure = async <T>(release: Release, start: (release: Release) => Promise<T>): Promise<T> => {
  try {
    return await start(release);
  } catch (error) {
    release();
    throw error;
  }
};

const answered = (body: Buffer, result: ServeResult): Served => {
  const stream = new PassThrough();
  stream.end(body);
  return { stream, done: Promise.resolve(result) };
};

/** Prevents an unhandled rejection, because the caller may look at the promise late or never. */
const observed = <T>(promise: Promise<T>): Promise<T> => {
  promise.catch(() => {});
  return promise;
};
