import { setImmediate } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ExecutionResult } from 'graphql';
import type { Answers } from '#platform/caller/answers.ts';
import type { Context } from '#platform/context.ts';
import { type Engine, Refused } from './engine.ts';
import { answerTooLong, LIMITS } from './limits.ts';
import type { readBody } from './params.ts';
import { toJsonText } from './text-rows.ts';

const RESPONSE_TYPE = 'application/graphql-response+json';

type Sent = ReturnType<typeof readBody>;

interface Answering {
  readonly engine: Engine;
  readonly answers: Answers;
}

/**
 * Answers GET requests and JSON requests, which nearly all requests are. Behaves as Yoga does.
 *
 * @throws DomainError `too_many_requests` or `unavailable` if too many answers are being made or sent
 */
export const answerJson = async (
  { engine, answers }: Answering,
  ctx: Context,
  { headers, method }: FastifyRequest,
  reply: FastifyReply,
  params: Sent,
): Promise<FastifyReply> => {
  const type = responseType(headers.accept);
  if (type === null) return answer(reply, 406, [`The answer can be application/json or ${RESPONSE_TYPE}`]);
  reply.type(`${type}; charset=utf-8`);
  if (Array.isArray(params)) {
    return sendText(answers, reply, 200, await answers.inTurn(ctx.signal, () => batch(engine, ctx, params)));
  }
  if (params instanceof Refused) return sendResult(answers, reply, type, params);
  const prepared = engine.prepare(params);
  if (prepared instanceof Refused) return sendResult(answers, reply, type, prepared);
  const execute = async () => textOf(await engine.execute(ctx, params, { readOnly: method !== 'POST' }));
  // A mutation answers with little, and may take long.
  if (prepared.operation.operation === 'mutation') return sendResult(answers, reply, type, await execute());
  return sendResult(answers, reply, type, await answers.inTurn(ctx.signal, execute));
};

/** Runs the operations of a batch in their order: a query after a mutation sees its effect. Returns the answer. */
const batch = async (engine: Engine, ctx: Context, params: Extract<Sent, readonly unknown[]>): Promise<string> => {
  const results: string[] = [];
  let length = 0;
  for (const each of params) {
    // Yields between operations, because each may use the limits of a whole request.
    await setImmediate();
    const result = each instanceof Refused ? each : await engine.execute(ctx, each);
    const text = JSON.stringify(result instanceof Refused ? { errors: result.errors } : result);
    const isTooLong = length + text.length > LIMITS.answerLength;
    if (!isTooLong) length += text.length;
    results.push(isTooLong ? JSON.stringify({ errors: [answerTooLong()], data: null }) : text);
  }
  return `[${results.join(',')}]`;
};

/** Answers a single query for an assumed caller. Returns false if the caller must be authenticated first. */
export const answerAssumed = async (
  { engine, answers }: Answering,
  ctx: Context,
  { headers }: FastifyRequest,
  reply: FastifyReply,
  params: Sent,
): Promise<boolean> => {
  const type = responseType(headers.accept);
  if (type === null || params instanceof Refused || Array.isArray(params) || !engine.isRead(params)) return false;
  const result = await ctx.callerCheck?.during(ctx.services.pool, () =>
    answers.inTurn(ctx.signal, async () => textOf(await engine.execute(ctx, params))),
  );
  if (!result) return false;
  sendResult(answers, reply.type(`${type}; charset=utf-8`), type, result);
  return true;
};

const textOf = (result: ExecutionResult | Refused): string | Refused =>
  result instanceof Refused ? result : toJsonText(result);

const sendResult = (answers: Answers, reply: FastifyReply, type: string, result: string | Refused): FastifyReply => {
  if (!(result instanceof Refused)) return sendText(answers, reply, 200, result);
  const status = result.status ?? (type === RESPONSE_TYPE ? 400 : 200);
  return sendText(answers, reply, status, JSON.stringify({ errors: result.errors }));
};

/** @throws DomainError as `Answers.hold` */
const sendText = (answers: Answers, reply: FastifyReply, status: number, text: string): FastifyReply => {
  answers.hold(reply.raw, reply.request.ip, text.length);
  return reply.code(status).send(text);
};

/** Returns the first supported type of the Accept header, and JSON for wildcards. Null when no type is supported. */
export const responseType = (accept: string | undefined): string | null => {
  if (accept === undefined || accept === '' || accept === '*/*') return 'application/json';
  for (const part of accept.split(',')) {
    const type = part.split(';', 1)[0]?.trim().toLowerCase();
    if (type === RESPONSE_TYPE) return RESPONSE_TYPE;
    if (type === 'application/json' || type === 'application/*' || type === '*/*') return 'application/json';
  }
  return null;
};

/** Answers with errors that prevented the request from running. */
export const answer = (reply: FastifyReply, status: number, messages: readonly string[]): FastifyReply =>
  reply
    .code(status)
    .type('application/json; charset=utf-8')
    .send(JSON.stringify({ errors: messages.map((message) => ({ message })) }));
