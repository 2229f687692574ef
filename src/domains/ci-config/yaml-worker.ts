import { parentPort, workerData } from 'node:worker_threads';
import { ConfigError } from './config-error.ts';
import { parseYaml } from './yaml.ts';

// Parses a large CI file off the main thread (large-yaml.ts).

const answer = (): unknown => {
  try {
    return parseYaml(String(workerData));
  } catch (error) {
    if (error instanceof ConfigError) return { error: error.message };
    throw error;
  }
};

parentPort?.postMessage(answer());
