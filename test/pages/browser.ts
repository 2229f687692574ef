import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { PATIENCE_MS } from '../support/until.ts';

/** The shell comes first: it has no windows of its own, and takes a quarter of the CPU time of a whole browser. */
const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

const findBrowser = (): string | null => {
  const folders = ['/usr/bin', ...(process.env.PATH ?? '').split(delimiter)];
  const candidates = [
    process.env.CHROMIUM_PATH,
    ...NAMES.flatMap((name) => folders.map((folder) => join(folder, name))),
  ];
  return candidates.find((path) => path !== undefined && existsSync(path)) ?? null;
};

const executablePath = findBrowser();
if (executablePath === null) {
  console.warn('No Chromium was found (CHROMIUM_PATH, /usr/bin/chromium): the tests in a browser are skipped.');
}

/** `describe` for tests that need a real browser. Skips them if no browser is installed. */
export const describeInBrowser = describe.skipIf(executablePath === null);

export interface Tab {
  readonly page: Page;
  readonly context: BrowserContext;
  /**
   * Every request the browser made. A request to an origin other than the hub's and those in `also` fails the test.
   */
  readonly requests: readonly string[];
  /** Console messages about violations of the content security policy. Any left at the end fail the test. */
  readonly forbidden: string[];
}

interface TabOptions extends BrowserContextOptions {
  /** The origin of the hub, which relative paths resolve against. */
  readonly baseURL: string;
  /** Further allowed origins that the test itself serves, such as an application's. */
  readonly also?: readonly string[];
}

/** Provides one browser for the tests of a file. `open` uses a fresh profile each time. No request leaves loopback. */
export const useBrowser = (): { open(options: TabOptions): Promise<Tab> } => {
  let browser: Browser | undefined;
  const opened: { readonly context: BrowserContext; readonly strangers: string[]; readonly errors: string[] }[] = [];
  beforeAll(async () => {
    if (executablePath === null) return;
    browser = await chromium.launch({
      executablePath,
      timeout: PATIENCE_MS,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
  });
  afterAll(async () => {
    await browser?.close();
    for (const { strangers, errors } of opened) {
      expect(strangers, 'no request leaves the hub').toEqual([]);
      expect(errors, 'the policy of the pages forbids nothing that they need').toEqual([]);
    }
  });
  return {
    open: async ({ also = [], ...options }) => {
      if (!browser) throw new Error('there is no browser');
      const context = await browser.newContext(options);
      context.setDefaultTimeout(PATIENCE_MS);
      const origins = new Set([new URL(options.baseURL).origin, ...also]);
      const requests: string[] = [];
      const strangers: string[] = [];
      const errors: string[] = [];
      // Abort requests to other origins before they are sent.
      await context.route(
        (url) => !origins.has(url.origin) && url.protocol.startsWith('http'),
        async (route) => {
          strangers.push(route.request().url());
          await route.abort();
        },
      );
      context.on('request', (request) => requests.push(request.url()));
      context.on('console', (message) => {
        if (/content security policy/i.test(message.text())) errors.push(message.text());
      });
      opened.push({ context, strangers, errors });
      return { context, requests, forbidden: errors, page: await context.newPage() };
    },
  };
};

/** Returns the contrast ratio of an element's text to its background (WCAG 2). */
export const contrastOf = (page: Page, selector: string): Promise<number> =>
  page
    .locator(selector)
    .first()
    .evaluate((element) => {
      const luminance = (color: string): number => {
        const [r = 0, g = 0, b = 0] = (color.match(/[\d.]+/g) ?? []).map((part) => {
          const value = Number(part) / 255;
          return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      let ground: Element | null = element;
      while (ground && /rgba\(0, 0, 0, 0\)|transparent/.test(getComputedStyle(ground).backgroundColor)) {
        ground = ground.parentElement;
      }
      const front = luminance(getComputedStyle(element).color);
      const back = luminance(getComputedStyle(ground ?? document.documentElement).backgroundColor);
      return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    });
