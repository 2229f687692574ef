import { expect, test } from 'vitest';
import { writeLines } from '#platform/archive/ndjson.ts';

test('a batch of lines may be larger than the longest string', async () => {
  const line = JSON.stringify('x'.repeat(1024 * 1024));
  const lines = Array.from({ length: 600 }, () => line);
  async function* source() {
    yield lines;
  }
  let bytes = 0;
  let largest = 0;
  for await (const chunk of writeLines(source())) {
    bytes += chunk.length;
    largest = Math.max(largest, chunk.length);
  }
  expect(bytes).toBe(600 * (line.length + 1));
  expect(largest).toBeLessThan(2 * 1024 * 1024);
});
