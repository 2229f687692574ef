import { parentPort, workerData } from 'node:worker_threads';
import { RE2JS } from 're2js';
import { z } from 'zod';

// Matches long texts against the patterns of a rule, off the main thread (matcher.ts).

const patterns = new Map(
  z
    .array(z.object({ name: z.string(), text: z.string(), flags: z.int() }))
    .parse(workerData)
    .map(({ name, text, flags }) => [name, RE2JS.compile(text, flags)]),
);
const question = z.object({ name: z.string(), subject: z.string() });

parentPort?.on('message', (message: unknown) => {
  const { name, subject } = question.parse(message);
  parentPort?.postMessage(patterns.get(name)?.test(subject) ?? false);
});
