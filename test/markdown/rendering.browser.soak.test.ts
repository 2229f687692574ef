import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fill } from '#domains/markdown/fill.ts';
import { render } from '#domains/markdown/rendering/render.ts';
import { describeInBrowser, useBrowser } from '../pages/browser.ts';
import { BASE, HOSTILE_REFERENT, hostileText } from './hostile.ts';

// A browser is the judge of rendered text: its parser, and not a pattern, says which elements there are. The texts are
// parsed twice, as frontends that move them around do, because markup can change its meaning on the way.

const browser = useBrowser();
const TEXTS = 6_000;
const BATCH = 500;

const html = (text: string, inline: boolean, seesAll: boolean): string =>
  fill(render(text, inline, { base: BASE, assetProxy: null }), {
    referentOf: () => (seesAll ? HOSTILE_REFERENT : null),
    home: { kind: 'project', id: 7 },
    homeUrl: `${BASE}/group/project`,
    base: BASE,
  });

/** Runs in the browser. Returns what is wrong with each text. Nothing is loaded or run: the document is inert. */
const judge = ({ texts, base }: { readonly texts: readonly string[]; readonly base: string }): string[][] => {
  const ELEMENTS = new Set(
    `p a code li strong em td tr ul pre h1 h2 h3 h4 h5 h6 br img span input th hr div blockquote ol dl dt dd figure
     figcaption details summary b i u s del ins sub sup small mark q cite abbr dfn kbd samp var tt time ruby rt rp table
     caption colgroup col thead tbody tfoot`.split(/\s+/),
  );
  const parsed = (text: string): Document => {
    const inert = document.implementation.createHTMLDocument('');
    const root = inert.createElement('base');
    root.href = `${base}/group/project/-/issues/1`;
    inert.head.append(root);
    inert.body.innerHTML = `<main><article>${text}</article><footer>after</footer></main>`;
    return inert;
  };
  const problemsOf = (inert: Document): string[] => {
    const problems: string[] = [];
    const [main, article, footer] = ['main', 'article', 'footer'].map((name) => inert.querySelector(name));
    // Nothing leaves its place, and what follows is not part of it.
    if (inert.body.childNodes.length !== 1 || main?.children.length !== 2) problems.push('leaves its element');
    if (footer?.previousElementSibling !== article || footer?.innerHTML !== 'after')
      problems.push('swallows what follows');
    for (const element of article?.querySelectorAll('*') ?? []) {
      const name = element.localName;
      if (!ELEMENTS.has(name) || element.namespaceURI !== 'http://www.w3.org/1999/xhtml') problems.push(`has ${name}`);
      for (const attribute of element.attributes) {
        const isStyle =
          attribute.name === 'style' && /^background-color: #[0-9a-f]{6}; color: #[0-9a-f]{6}$/i.test(attribute.value);
        if (/^on|^srcdoc$|^form|^xlink/.test(attribute.name) || (attribute.name === 'style' && !isStyle)) {
          problems.push(`has ${name}[${attribute.name}]`);
        }
        if (attribute.name === 'id' && !attribute.value.startsWith('user-content-')) problems.push('names an element');
      }
      if (element instanceof HTMLAnchorElement && element.hasAttribute('href')) {
        if (!['http:', 'https:', 'mailto:', 'ftp:', 'irc:', 'ircs:', 'tel:', 'xmpp:'].includes(element.protocol)) {
          problems.push(`leads to ${element.href}`);
        }
      }
      if (element instanceof HTMLImageElement && !/^https?:$/.test(URL.parse(element.src)?.protocol ?? '')) {
        problems.push(`shows ${element.src}`);
      }
      if (element instanceof HTMLInputElement && (element.type !== 'checkbox' || !element.disabled))
        problems.push('asks for input');
    }
    return problems;
  };
  return texts.map((text) => {
    const once = parsed(text);
    const again = parsed(once.querySelector('article')?.innerHTML ?? '');
    return [...problemsOf(once), ...problemsOf(again)];
  });
};

describeInBrowser('rendered text in a browser', () => {
  it('has no element that acts, stays in its place and survives being parsed again', async () => {
    const { page } = await browser.open({ baseURL: BASE });
    const given = fc.sample(hostileText, TEXTS);
    for (let at = 0; at < given.length; at += BATCH) {
      const batch = given
        .slice(at, at + BATCH)
        .flatMap((text) => [true, false].map((seesAll) => ({ text, html: html(text, at % (2 * BATCH) > 0, seesAll) })));
      const problems = await page.evaluate(judge, { texts: batch.map((each) => each.html), base: BASE });
      const found = batch.flatMap((each, index) =>
        problems[index]?.length === 0 ? [] : [{ ...each, problems: problems[index] }],
      );
      expect(found.slice(0, 3)).toEqual([]);
    }
  });
});
