import type { FastifyInstance } from 'fastify';
import type { Services } from '#platform/context.ts';
import { getSettings } from './queries.ts';

/** Serves the setting `security_txt_content` at the place where people who find a weakness look for it (RFC 9116). */
export const mountSecurityTxt = (fastify: FastifyInstance, { services }: { readonly services: Services }): void => {
  fastify.route({
    method: ['GET', 'HEAD'],
    url: '/.well-known/security.txt',
    handler: async (_request, reply) => {
      const { security_txt_content: text } = await getSettings({ services });
      if (text === '') return reply.callNotFound();
      return reply.type('text/plain; charset=utf-8').header('X-Content-Type-Options', 'nosniff').send(text);
    },
  });
};
