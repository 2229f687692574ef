import { expect, it } from 'vitest';
import { LineScan } from '#domains/transfers/importing/line-scan.ts';

const scanned = async (text: string, size: number) => {
  const bytes = Buffer.from(text);
  const scan = new LineScan();
  const parts = async function* () {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  };
  const passed: Buffer[] = [];
  for await (const chunk of scan.through(parts())) passed.push(chunk);
  expect(Buffer.concat(passed).equals(bytes)).toBe(true);
  return { lines: scan.lines, highest: scan.highestIid };
};

it.each([
  ['', { lines: 0, highest: 0 }],
  ['{"iid":7}', { lines: 1, highest: 7 }],
  ['{"title":"a","iid": 12,"milestone":{"iid":99}}\n{"iid":3}\n', { lines: 2, highest: 12 }],
  ['{"title":"\\"iid\\":5","description":"iid","iid":2}\n', { lines: 1, highest: 2 }],
  ['{"note":"iid"}\n\n{"name":"x"}', { lines: 3, highest: 0 }],
  ['{"iid":null,"milestone":{"iid":4}}\n{"iid":5000000000}\n{"iid":"31"}', { lines: 3, highest: 31 }],
  [
    `${'{"title":"x"}\n'.repeat(200)}{"description":"${'y'.repeat(500)}","iid":1000000000}`,
    { lines: 201, highest: 1e9 },
  ],
])('finds the highest number of the items in %j, however it arrives', async (text, expected) => {
  for (const size of [1, 2, 3, 7, 64, 100_000]) expect(await scanned(text, size), String(size)).toEqual(expected);
});
