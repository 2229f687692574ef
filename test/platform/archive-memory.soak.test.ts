import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

const run = promisify(execFile);

test('the archive writer and reader pass 200 MB at constant memory', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'millrace-archive-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const script = `
    import { Readable } from 'node:stream';
    const [writing, reading, ndjson] = await Promise.all(
      ['write-archive', 'read-archive', 'ndjson'].map((name) => import('${new URL('../../src/platform/archive/', import.meta.url)}' + name + '.ts')));
    const line = JSON.stringify({ title: 'An issue', description: 'It does not work. '.repeat(100), nested: { a: [1, 2, 3] } });
    async function* batches() { for (let sent = 0; sent < 200e6; sent += 100 * line.length) yield Array(100).fill(line); }
    const live = [];
    const watch = setInterval(() => {
      gc();
      const { heapUsed, external } = process.memoryUsage();
      live.push(heapUsed + external);
    }, 50);
    const writer = writing.createArchiveWriter({ temporaryDirectory: process.argv[1] });
    let bytes = 0;
    let lines = 0;
    const read = reading.readArchive(writer.output, { maxBytes: 1e9, maxEntries: 10, timeoutMs: 3_600_000, onEntry: async ({ stream }) => {
      for await (const batch of ndjson.readLineBatches(stream, { maxLineBytes: 1e6, maxDepth: 50 })) {
        lines += batch.length;
        for (const one of batch) bytes += one.bytes;
      }
    } });
    await writer.entry('tree/project/issues.ndjson', ndjson.writeLines(batches()));
    await writer.finish();
    await read;
    clearInterval(watch);
    console.log(JSON.stringify({ lines, bytes, live }));`;
  const { stdout } = await run(process.execPath, ['--expose-gc', '--input-type=module', '-e', script, directory]);
  // Measure live memory, because the resident size depends on when the garbage collector runs.
  const { lines, bytes, live }: { lines: number; bytes: number; live: number[] } = JSON.parse(stdout);
  const median = (sizes: number[]) => sizes.toSorted((a, b) => a - b)[sizes.length >> 1] ?? 0;
  const half = live.length >> 1;
  expect(bytes).toBeGreaterThan(200e6);
  expect(lines).toBeGreaterThan(100_000);
  expect(live.length).toBeGreaterThan(8);
  expect(median(live.slice(half)) - median(live.slice(0, half))).toBeLessThan(15 * 1024 * 1024);
  expect(Math.max(...live)).toBeLessThan(80 * 1024 * 1024);
});
