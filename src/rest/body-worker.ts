import { parentPort } from 'node:worker_threads';
import { z } from 'zod';
import { DomainError } from '#platform/errors.ts';
import { readBodyText } from './body-text.ts';
import type { ParsedBody } from './large-bodies.ts';

// Parses large bodies in a worker thread, so that they do not block other requests (large-bodies.ts).

const given = z.object({
  kind: z.enum(['json', 'form']),
  bytes: z.instanceof(Uint8Array),
  limits: z.object({ values: z.int(), depth: z.int() }),
});

const parse = (message: unknown): ParsedBody => {
  const { kind, bytes, limits } = given.parse(message);
  try {
    return { body: readBodyText(kind, new TextDecoder().decode(bytes), limits) };
  } catch (error) {
    if (error instanceof DomainError) return { problem: error.message };
    throw error;
  }
};

parentPort?.on('message', (message: unknown) => parentPort?.postMessage(parse(message)));
