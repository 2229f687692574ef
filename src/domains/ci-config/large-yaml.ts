import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { codeOf } from '#platform/files/error-code.ts';
import { ConfigError } from './config-error.ts';
import { Reference, type Value } from './values.ts';
import type { ParsedYaml } from './yaml.ts';

/** The library takes up to 10 µs per character. Longer texts are parsed in a worker thread. */
const MAX_INLINE = 16 * 1024;
const TIMEOUT_MS = 20_000;
const MEMORY_MEBIBYTES = 512;

/** Parses a text of any length without blocking the event loop. @throws ConfigError */
export const parseAnyYaml = async (text: string, signal: AbortSignal): Promise<ParsedYaml> => {
  if (text.length <= MAX_INLINE) {
    // Loaded with the first CI file.
    const { parseYaml } = await import('./yaml.ts');
    return parseYaml(text);
  }
  signal.throwIfAborted();
  const worker = new Worker(new URL('./yaml-worker.ts', import.meta.url), {
    workerData: text,
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MEBIBYTES },
  });
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  try {
    const [message] = await once(worker, 'message', { signal: limit });
    const answer = answers.parse(message);
    if (answer.error !== undefined) throw new ConfigError(answer.error);
    const seen = new Map<object, Value>();
    return { documents: answer.documents.map((each) => received(each, seen)), warnings: answer.warnings };
  } catch (cause) {
    const isTooMuch = limit.aborted || codeOf(cause) === 'ERR_WORKER_OUT_OF_MEMORY';
    if (signal.aborted || !isTooMuch) throw cause;
    throw new ConfigError('The parsed YAML is too big');
  } finally {
    // The worker may run out of memory later. An unhandled error event would crash the process.
    worker.on('error', () => {});
    await worker.terminate();
  }
};

const answers = z.union([
  z.object({ error: z.string() }),
  z.object({ error: z.undefined().optional(), documents: z.array(z.unknown()), warnings: z.array(z.string()) }),
]);

/** Makes references of the arrays that stand for them. Aliases still share their value. */
const received = (data: unknown, seen: Map<object, Value>): Value => {
  if (typeof data !== 'object' || data === null) {
    return typeof data === 'string' || typeof data === 'number' || typeof data === 'boolean' ? data : null;
  }
  const before = seen.get(data);
  if (before !== undefined) return before;
  const value = receivedCollection(data, seen);
  seen.set(data, value);
  return value;
};

const receivedCollection = (data: object, seen: Map<object, Value>): Value => {
  if (data instanceof Map) return new Map([...data].map(([key, each]) => [String(key), received(each, seen)]));
  if (Array.isArray(data)) return data.map((each) => received(each, seen));
  // Structured cloning keeps the fields of a reference, but not its class.
  const path = 'path' in data && Array.isArray(data.path) ? data.path : [];
  return new Reference(path.map((each) => received(each, seen)));
};
