import type { FastifyInstance, FastifyRequest } from 'fastify';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Services } from '#platform/context.ts';
import { insufficientScope, unauthenticated } from '#platform/errors.ts';
import { type Credential, readCredential } from '#rest/auth.ts';
import { announceDeprecation, type NotingDependencies, noteDeprecated } from '#rest/deprecation.ts';
import { answerInV5 } from '#rest/v5-records.ts';
import { authenticateClient } from './client-authentication.ts';
import { providerMetadata } from './discovery.ts';
import { sendPrivate, sendProblem, sendPublic } from './endpoints/answers.ts';
import { allowOrigins, answerPreflight } from './endpoints/cross-origin.ts';
import { authorizeDevice } from './endpoints/device.ts';
import { hasClient, type Parameters, readClient, readQuery, registerBodies, required } from './endpoints/parameters.ts';
import { grantTokens } from './endpoints/token.ts';
import { claimsOf } from './identity.ts';
import { introspect, revokeByClient, tokenInfo } from './inspection.ts';
import { tokenInfoRecord } from './rest/openapi.ts';
import { publicKeys } from './signing-keys.ts';

interface Dependencies {
  readonly services: Services;
  readonly versions: NotingDependencies['versions'];
  contextOf(request: FastifyRequest, credential?: Credential): Promise<Context>;
}

/** Mounts the endpoints that applications call. They use the forms and errors of OAuth, not those of the API. */
export const mountOAuth = (fastify: FastifyInstance, { services, versions, contextOf }: Dependencies): void => {
  registerBodies(fastify);
  fastify.setErrorHandler((error, request, reply) => {
    if (sendProblem(reply, error)) services.log.error({ err: error, request_id: request.id }, 'request failed');
  });
  /** The caller is an application that authenticates by the protocol, so cookies and tokens are ignored. */
  const byApplication = (request: FastifyRequest) => contextOf(request, { kind: 'none' });

  answerPreflight(fastify, '/oauth/token', ['POST']);
  fastify.post('/oauth/token', { onRequest: allowOrigins }, async (request, reply) =>
    sendPrivate(reply, 200, await grantTokens(await byApplication(request), request.headers, bodyOf(request))),
  );

  fastify.post('/oauth/authorize_device', { onRequest: allowOrigins }, async (request, reply) => {
    const ctx = await byApplication(request);
    return sendPrivate(reply, 200, await authorizeDevice(ctx, request.headers, bodyOf(request)));
  });

  answerPreflight(fastify, '/oauth/revoke', ['POST']);
  fastify.post('/oauth/revoke', { onRequest: allowOrigins }, async (request, reply) => {
    const ctx = await byApplication(request);
    const sent = bodyOf(request);
    const application = hasClient(request.headers, sent)
      ? await authenticateClient(ctx, readClient(request.headers, sent))
      : null;
    await revokeByClient(ctx, application, required(sent, 'token'));
    return sendPrivate(reply, 200, {});
  });

  fastify.post('/oauth/introspect', async (request, reply) => {
    const ctx = await byApplication(request);
    const sent = bodyOf(request);
    const application = await authenticateClient(ctx, readClient(request.headers, sent));
    return sendPrivate(reply, 200, await introspect(ctx, application, required(sent, 'token')));
  });

  fastify.get('/oauth/token/info', { onRequest: allowOrigins }, async (request, reply) => {
    const value = await bearerOf(services, request);
    const { actor, ...ctx } = await byApplication(request);
    const { info, familyId } = await tokenInfo(ctx, value);
    if (readQuery(request.raw.url ?? '').has('access_token')) {
      const names = ['GET /oauth/token/info access_token'];
      const credential = { kind: 'oauth_token', id: 0, holderId: info.resource_owner_id, originId: familyId } as const;
      const use = { names, actor: { ...actor, credential }, route: { deprecated: null } };
      await noteDeprecated(request, use, { services, versions });
      announceDeprecation(reply);
    }
    const body = request.apiVersion === 5 ? answerInV5(tokenInfoRecord, info, services.urls.base) : info;
    return sendPrivate(reply, 200, body);
  });

  answerPreflight(fastify, '/oauth/userinfo', ['GET', 'POST']);
  fastify.route({
    method: ['GET', 'POST'],
    url: '/oauth/userinfo',
    onRequest: allowOrigins,
    handler: async (request, reply) => {
      const { actor, ...ctx } = await contextOf(request, { kind: 'token', value: await bearerOf(services, request) });
      if (actor.userId === null || actor.scopes === null) throw unauthenticated();
      if (!actor.scopes.has('openid')) throw insufficientScope(['openid']);
      return sendPrivate(reply, 200, await claimsOf({ ...ctx, actor }, actor.userId, actor.scopes));
    },
  });

  for (const url of ['/.well-known/openid-configuration', '/.well-known/oauth-authorization-server']) {
    fastify.get(url, { onRequest: allowOrigins }, async (_request, reply) =>
      sendPublic(reply, await providerMetadata({ services })),
    );
  }
  fastify.get('/oauth/discovery/keys', { onRequest: allowOrigins }, async (request, reply) =>
    sendPublic(reply, { keys: await publicKeys(await byApplication(request)) }),
  );
};

/** Returns the token in question: from the header, from a form body or, if the setting allows it, from the query. */
const bearerOf = async (services: Services, request: FastifyRequest): Promise<string> => {
  const query = readQuery(request.raw.url ?? '');
  const { token_in_query_enabled: queryCounts } = await getSettings({ services });
  const inQuery = query.get('access_token');
  if (inQuery !== undefined && !queryCounts) throw unauthenticated();
  const { authorization } = request.headers;
  const inBody = bodyOf(request).get('access_token');
  const credential = readCredential({ authorization }, { access_token: inQuery ?? inBody });
  if (credential.kind !== 'token') throw unauthenticated();
  return credential.value;
};

const NOTHING: Parameters = new Map();

const bodyOf = ({ body }: FastifyRequest): Parameters => (isParameters(body) ? body : NOTHING);

/** The only body type that the parsers of this scope produce. */
const isParameters = (body: unknown): body is Parameters => body instanceof Map;
