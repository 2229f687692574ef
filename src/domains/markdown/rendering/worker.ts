import { parentPort } from 'node:worker_threads';
import { z } from 'zod';
import { render } from './render.ts';

// Renders long texts off the main thread (long-texts.ts).

const given = z.object({
  text: z.string(),
  inline: z.boolean(),
  options: z.object({
    base: z.string(),
    assetProxy: z.object({ url: z.string(), secret: z.string(), allowlist: z.array(z.string()) }).nullable(),
  }),
});

parentPort?.on('message', (message: unknown) => {
  const { text, inline, options } = given.parse(message);
  parentPort?.postMessage(render(text, inline, options));
});
