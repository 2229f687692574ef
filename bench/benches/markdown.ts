import MarkdownIt from 'markdown-it';
import sanitizeHtml from 'sanitize-html';
import { render } from '../../src/domains/markdown/rendering/render.ts';
import { median } from '../lib/compare.ts';
import { type Outcome, ratioText } from '../lib/report.ts';

const AT_LEAST = 0.5;
const ROUNDS = 15;
const WINDOW_MS = 300;

const TEXT = `## What does this change?

Fixes #12 and group/project#34, as **@alice** asked for in !56. See [the docs](doc/api.md) and https://example.com/a?b=c.

- [x] Add \`limit\` to the list
- [ ] Update the ~documentation before %"next release"

| Before | After |
|---|---:|
| 120 ms | 14 ms |

\`\`\`ts
const limit = Math.min(given, 100);
\`\`\`

> Nobody will notice. Everybody will be pleased.
`;
const OPTIONS = { base: 'http://hub.example', assetProxy: null };

/** Rendering of a usual description, with its references found, against the two libraries alone. */
export const markdown = async (): Promise<Outcome> => {
  const bare = new MarkdownIt({ html: true, linkify: true });
  const sides = [() => render(TEXT, false, OPTIONS), () => sanitizeHtml(bare.render(TEXT))] as const;
  const ratios: number[] = [];
  const rates: [number, number][] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const [hub, baseline] = round % 2 === 0 ? sides.map(rateOf) : [...sides].reverse().map(rateOf).reverse();
    // The first round warms up.
    if (round === 0 || hub === undefined || baseline === undefined) continue;
    ratios.push(hub / baseline);
    rates.push([hub, baseline]);
  }
  const rate = (side: 0 | 1) => Math.round(median(rates.map((each) => each[side])));
  return {
    target: `at least ${AT_LEAST} of markdown-it and sanitize-html alone`,
    reached: median(ratios) >= AT_LEAST,
    lines: [
      `renders per CPU second, ${TEXT.length} characters: hub ${rate(0)}, libraries ${rate(1)}`,
      `ratio ${ratioText(ratios)}`,
    ],
  };
};

/** Returns the runs per second of CPU time of this thread. */
const rateOf = (run: () => unknown): number => {
  const cpuMs = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };
  const started = cpuMs();
  let runs = 0;
  while (cpuMs() - started < WINDOW_MS) {
    for (let n = 0; n < 20; n++) run();
    runs += 20;
  }
  return (runs * 1_000) / (cpuMs() - started);
};
