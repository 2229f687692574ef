import { Transform } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { HeldBytes } from '#platform/caller/held-bytes.ts';
import { tooManyRequests } from '#platform/errors.ts';
import { MIB } from '#platform/values/units.ts';
import { isMultipart, NOBODYS_BODY_BYTES } from './body.ts';

const LIMITS = { bytesPerAddress: 64 * MIB, bytesInAll: 256 * MIB };
const RETRY_SECONDS = 5;

/**
 * Limits the memory of bodies that are read as a whole, from their first byte to the end of the response. Otherwise one
 * caller could fill the memory with many bodies that never end. Small bodies are free.
 */
export const boundArrivingBodies = (scope: FastifyInstance): void => {
  const arriving = new HeldBytes(LIMITS);
  scope.addHook('preParsing', (request, reply, payload, done) => {
    const { headers } = request;
    const isSmall =
      headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= NOBODYS_BODY_BYTES;
    if (isSmall || isMultipart(request) || request.routeOptions.config.rawBody) return done(null, payload);
    const arrival = arriving.from(request.ip);
    reply.raw.once('close', () => arrival.release());
    const counted = new Transform({
      transform: (chunk: Buffer, _encoding, callback) =>
        arrival.add(chunk.length) ? callback(null, chunk) : callback(tooManyRequests(RETRY_SECONDS)),
    });
    payload.once('error', (error) => counted.destroy(error));
    done(null, payload.pipe(counted));
  });
};
