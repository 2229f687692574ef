import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fill } from '#domains/markdown/fill.ts';
import { isBusy, renderLongText } from '#domains/markdown/long-texts.ts';
import { type AssetProxy, type Home, isReference, type Referent } from '#domains/markdown/model.ts';
import { render } from '#domains/markdown/rendering/render.ts';
import { scanText } from '#domains/markdown/scanning.ts';
import { computedMs } from '../support/computed-ms.ts';
import { BASE, HOSTILE_REFERENT, hostileText, SECRET } from './hostile.ts';

interface Options {
  readonly inline?: boolean;
  readonly referent?: Referent | null;
  readonly assetProxy?: AssetProxy | null;
  readonly home?: Home | null;
}

const PROJECT: Home = { kind: 'project', id: 7 };
const HOMES: readonly (Home | null)[] = [PROJECT, { kind: 'group', id: 8 }, null];

/** Renders a text of the project 7, `group/project`, unless it has another home. */
const html = (
  text: string,
  { inline = false, referent = null, assetProxy = null, home = PROJECT }: Options = {},
): string =>
  fill(render(text, inline, { base: BASE, assetProxy }), {
    referentOf: () => referent,
    home,
    homeUrl: home?.kind === 'project' ? `${BASE}/group/project` : null,
    base: BASE,
  });

/** An element of the result, with its name and attributes. */
const ELEMENT = /<(\/?)([a-z][a-z0-9]*)((?: [a-z-]+(?:="[^"<>]*")?)*)( \/)?>/g;

/** Returns the URLs of the attributes `href` and `src`, as browsers read them. */
const urlsIn = (result: string): { readonly attribute: string; readonly url: URL }[] =>
  [...result.matchAll(ELEMENT)].flatMap(([, , , attributes = '']) =>
    [...attributes.matchAll(/ (href|src)(?:="([^"]*)")?/g)].map(([, attribute = '', value = '']) => {
      const text = value.replace(/&(?:amp|lt|gt|quot|#39);/g, (each) => CHARACTERS[each] ?? each);
      return { attribute, url: new URL(text, `${BASE}/group/project/-/issues/1`) };
    }),
  );
const CHARACTERS: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
};

/** Returns the references of a text, each as its kind and what it names. */
const references = (text: string): string[] =>
  render(text, false, { base: BASE, assetProxy: null }).slots.flatMap((slot) => {
    if (!isReference(slot)) return [];
    const project = slot.kind === 'user' ? '' : (slot.project ?? '');
    const value =
      slot.kind === 'issue' || slot.kind === 'merge_request'
        ? `${slot.iid}${slot.note ? `/${slot.note}` : ''}`
        : slot.kind === 'commit'
          ? slot.sha
          : slot.name;
    return [`${slot.kind} ${project}:${value}`];
  });

describe('Markdown', () => {
  it.each([
    ['**a** _b_ ~~c~~ `d`', '<p dir="auto"><strong>a</strong> <em>b</em> <del>c</del> <code>d</code></p>'],
    ['a\nb\n\nc', '<p dir="auto">a\nb</p>\n<p dir="auto">c</p>'],
    ['1 < 2 && 3 > "2"', '<p dir="auto">1 &lt; 2 &amp;&amp; 3 &gt; "2"</p>'],
    [
      '## Two  Words!\n\n## two words',
      '<h2 id="user-content-two-words" dir="auto">Two  Words!<a class="anchor" aria-hidden="true" href="#two-words"></a></h2>\n' +
        '<h2 id="user-content-two-words-1" dir="auto">two words<a class="anchor" aria-hidden="true" href="#two-words-1"></a></h2>',
    ],
    [
      '|a|b|\n|-|:-:|\n|1|2|',
      '<table dir="auto">\n<thead>\n<tr>\n<th>a</th>\n<th align="center">b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td align="center">2</td>\n</tr>\n</tbody>\n</table>',
    ],
    [
      '- [ ] a\n- [X] b\n- c',
      '<ul class="task-list" dir="auto">\n<li class="task-list-item"><input type="checkbox" disabled="disabled" class="task-list-item-checkbox" /> a</li>\n<li class="task-list-item"><input type="checkbox" disabled="disabled" class="task-list-item-checkbox" checked="checked" /> b</li>\n<li>c</li>\n</ul>',
    ],
    [
      '```ruby title\n<a> #1\n```',
      '<pre class="code highlight" lang="ruby" data-canonical-lang="ruby"><code>&lt;a&gt; #1\n</code></pre>',
    ],
    [
      'www.example.com/a. example.com',
      '<p dir="auto"><a href="http://www.example.com/a" rel="nofollow noreferrer noopener" target="_blank">www.example.com/a</a>. example.com</p>',
    ],
    ['<details><summary>s</summary>x</details>', '<details><summary>s</summary>x</details>'],
    ['', ''],
  ])('of %j', (text, expected) => {
    expect(html(text)).toBe(expected);
  });

  it('renders titles as one line without blocks, images and HTML', () => {
    expect(html('# a `b` *c* <i>d</i> ![e](f) [g](h)', { inline: true })).toBe(
      '# a <code>b</code> <em>c</em> &lt;i&gt;d&lt;/i&gt; ![e](f) [g](h)',
    );
  });

  it.each([
    [`[a](/uploads/${SECRET}/x.png)`, `href="${BASE}/-/project/7/uploads/${SECRET}/x.png"`],
    [`![a](/uploads/${SECRET}/x.png)`, `src="${BASE}/-/project/7/uploads/${SECRET}/x.png"`],
    ['[a](docs/b.md?c#d)', `href="${BASE}/group/project/-/blob/HEAD/docs/b.md?c#d"`],
    ['![a](../../b.png)', `src="${BASE}/group/project/-/raw/HEAD/"`],
    ['<a href="\\evil.example/x">a</a>', `href="${BASE}\\evil.example/x"`],
    ['[a](/other/project)', `href="${BASE}/other/project"`],
    ['[a](#part)', 'href="#part"'],
    [`[a](${BASE}/x)`, `href="${BASE}/x">a`],
    ['[a](//other.example/x)', 'href="//other.example/x" rel="nofollow noreferrer noopener" target="_blank"'],
    ['[a](mailto:a@example.com)', 'href="mailto:a@example.com"'],
  ])('directs the URL of %j', (text, expected) => {
    expect(html(text)).toContain(expected);
  });

  it('starts relative URLs of texts without a project from the hub', () => {
    for (const home of [{ kind: 'group', id: 8 } as const, null]) {
      expect(html('[a](b.md?c)', { home })).toContain(`href="${BASE}/b.md?c"`);
      expect(html('![a](../../b.png)', { home })).toContain(`src="${BASE}/b.png"`);
    }
  });

  it('reads URLs like a browser before it judges them', () => {
    const prefixes = ['', '&#1;', '&#32;&#10;', '&#31;&#9;'];
    const targets = ['java&#9;script:alert(1)', 'javascript&#9;:alert(1)', 'j&#10;avascript&#13;:alert(1)'];
    targets.push('javascript:alert(1)', 'data&#9;:text/html,x', 'http://[', '/&#9;/[');
    for (const home of HOMES) {
      for (const prefix of prefixes) {
        for (const target of targets) {
          const link = html(`<a href="${prefix}${target}">x</a>`, { home });
          expect([prefix, target, urlsIn(link)]).toEqual([prefix, target, []]);
          const image = html(`<img src="${prefix}${target}">`, { home });
          expect([prefix, target, urlsIn(image)]).toEqual([prefix, target, []]);
        }
      }
    }
    expect(html('<a href="&#1;ht&#9;tp://a.example/&#10;b ">x</a>')).toContain(
      'href="http://a.example/b" rel="nofollow noreferrer noopener" target="_blank"',
    );
  });

  it('never fills a slot with a URL that leaves the hub', () => {
    for (const home of HOMES) {
      for (const path of [
        'javascript:alert(1)',
        'java\tscript:alert(1)',
        '//evil.example/x',
        '/\\evil.example',
        'http://[',
      ]) {
        const slot = { kind: 'file', path, embedded: false } as const;
        const homeUrl = home?.kind === 'project' ? `${BASE}/group/project` : null;
        const filled = fill({ html: ['', ''], slots: [slot] }, { referentOf: () => null, home, homeUrl, base: BASE });
        expect(new URL(filled).origin).toBe(BASE);
      }
    }
  });
});

describe('references', () => {
  it.each([
    ['#1, !2 (#3) [#4]', ['issue :1', 'merge_request :2', 'issue :3', 'issue :4']],
    ['group/sub/project#5 and a_b/c-d!6', ['issue group/sub/project:5', 'merge_request a_b/c-d:6']],
    ['@alice, @group/sub. @bob: x@example.com', ['user :alice', 'user :group/sub', 'user :bob']],
    ['~bug ~"two words" ~scope::value. a~b', ['label :bug', 'label :two words', 'label :scope::value']],
    ['%v1.2. %"next one" g/p%3 100%x', ['milestone :v1.2', 'milestone :next one', 'milestone g/p:3']],
    ['abcdef12 g/p@0123456 1234567 abcdefg', ['commit :abcdef12', 'commit g/p:0123456']],
    [`${BASE}/g/p/-/issues/4#note_5 ${BASE}/g/p/merge_requests/6`, ['issue g/p:4/5', 'merge_request g/p:6']],
    [`<${BASE}/g/p/-/commit/abcdef12> ${BASE}/g/p/-/pipelines/1`, ['commit g/p:abcdef12']],
    ['**#1** ~~#2~~ <b>#3</b>', ['issue :1', 'issue :2', 'issue :3']],
    ['- [x] #1\n\n> #2\n\n|#3|\n|-|', ['issue :1', 'issue :2', 'issue :3']],
  ])('in %j', (text, expected) => {
    expect(references(text)).toEqual(expected);
  });

  it.each([
    '`#1` and ``!2``',
    '    #1',
    '```\n#1\n```',
    '[see #1](http://example.com)',
    `[see](${BASE}/g/p/-/issues/1)`,
    '<a href="/x">#1</a> <code>#2</code>',
    '\\#1 \\@a \\!2 &#49;&#39;',
    'a#1 #1a ##1 #0 #99999999999 &#12;',
    'https://example.com/#1 a@b.example',
    '![#1](x)',
  ])('none in %j', (text) => {
    expect(references(text)).toEqual([]);
  });

  it('are links only if they stand for something that the reader can see', () => {
    const text = `See #1 and ${BASE}/g/p/-/issues/1.`;
    expect(html(text)).toBe(
      `<p dir="auto">See #1 and <a href="${BASE}/g/p/-/issues/1">${BASE}/g/p/-/issues/1</a>.</p>`,
    );
    const referent = {
      href: `${BASE}/g/p/-/issues/1`,
      text: '#1',
      title: '"><script>',
      className: 'gfm-issue',
      data: { iid: 1 },
    };
    expect(html('See #1', { referent })).toBe(
      `<p dir="auto">See <a href="${BASE}/g/p/-/issues/1" title="&quot;&gt;&lt;script&gt;" class="gfm gfm-issue" data-reference-type="issue" data-original="#1" data-iid="1">#1</a></p>`,
    );
    const label = {
      ...referent,
      className: 'gfm-label',
      text: 'bug',
      colors: { background: '#ff0000', text: '#FFFFFF' },
    };
    expect(html('~bug', { referent: label })).toContain(
      '<span class="gl-label-text" style="background-color: #ff0000; color: #FFFFFF">bug</span>',
    );
  });
});

describe('images of other hosts', () => {
  const assetProxy = {
    url: 'https://camo.example/',
    secret: 'shared',
    allowlist: ['img.example', '*.trusted.example'],
  };

  it('come from the proxy, unless their host is on the allowlist', () => {
    const src = (url: string) => /src="([^"]*)"/.exec(html(`![](${url})`, { assetProxy }))?.[1];
    // printf http://x.example/a.png | openssl dgst -sha1 -hmac shared
    const proxied = src('http://x.example/a.png');
    expect(proxied).toBe(
      `https://camo.example/46a3d70b855d829c87e09f2718ed97b52f228887/${Buffer.from('http://x.example/a.png').toString('hex')}`,
    );
    expect(src('//x.example/a.png')).toContain(Buffer.from('https://x.example/a.png').toString('hex'));
    for (const url of ['http://img.example/a.png', 'https://a.b.trusted.example/a.png', `${BASE}/a.png`]) {
      expect(src(url)).toBe(url);
    }
    for (const url of [
      'http://img.example.evil.example/a',
      'http://trusted.example/a',
      'http://img.example@evil.example/a',
    ]) {
      expect(src(url)).toMatch(/^https:\/\/camo\.example\//);
    }
    expect(html('<img src="http://x.example/a.png" srcset="http://x.example/b.png">', { assetProxy })).not.toContain(
      'srcset',
    );
  });

  it('come from the proxy however their URL is written', () => {
    const written = ['/\\evil.example/a', '\\\\evil.example/a', '/&#9;/evil.example/a', 'ht&#9;tp://evil.example/a'];
    written.push(
      '&#1;http://evil.example/a',
      'http:\\\\evil.example/a',
      'HTTPS:evil.example/a',
      'http:///evil.example/a',
    );
    for (const home of HOMES) {
      for (const url of written) {
        const hosts = urlsIn(html(`<img src="${url}">`, { assetProxy, home })).map((each) => each.url.host);
        expect([url, hosts]).toEqual([url, ['camo.example']]);
      }
      for (const url of ['http://[', '//[/a', 'mailto:a@example.com', 'ftp://evil.example/a']) {
        expect(urlsIn(html(`<img src="${url}">`, { assetProxy, home }))).toEqual([]);
      }
    }
  });
});

/** The attributes that each element of the result may have. */
const ATTRIBUTE =
  /^(?:id|title|dir|lang|align|class|href|rel|target|aria-hidden|src|alt|width|height|type|checked|disabled|start|reversed|value|open|data-[a-z-]+|datetime|colspan|rowspan|scope|style)$/;
const DANGEROUS =
  /^(?:script|style|iframe|object|embed|form|svg|math|link|meta|base|template|textarea|select|button|video|audio)$/;

/** Fails unless the result is well-formed HTML without anything that acts. */
const expectHarmless = (result: string): void => {
  for (const [, , name = '', attributes = ''] of result.matchAll(ELEMENT)) {
    expect(name).not.toMatch(DANGEROUS);
    for (const [, attribute = '', value = ''] of attributes.matchAll(/ ([a-z-]+)(?:="([^"<>]*)")?/g)) {
      expect(attribute).toMatch(ATTRIBUTE);
      if (attribute === 'style') expect(value).toBe('background-color: #ff0000; color: #FFFFFF');
    }
  }
  expect(result.replace(ELEMENT, '')).not.toMatch(/[<>\0]/);
  for (const { attribute, url } of urlsIn(result)) {
    expect(url.protocol).toMatch(attribute === 'src' ? /^https?:$/ : /^(?:https?|mailto):$/);
  }
};

describe('hostile input', () => {
  it('never becomes anything that acts, for readers who see all references and for those who see none', () => {
    const assetProxy = { url: 'https://camo.example', secret: 's', allowlist: [] };
    fc.assert(
      fc.property(hostileText, fc.boolean(), fc.constantFrom(...HOMES), (given, inline, home) => {
        expectHarmless(html(given, { inline, referent: HOSTILE_REFERENT, home }));
        const proxied = html(given, { inline, assetProxy, home });
        expectHarmless(proxied);
        for (const { attribute, url } of urlsIn(proxied)) {
          if (attribute === 'src') expect([BASE, assetProxy.url]).toContain(url.origin);
        }
      }),
      { numRuns: 800 },
    );
  });

  it('takes linear time', () => {
    const LENGTH = 8 * 1024;
    const repeated = [
      '[',
      '![',
      ']',
      '>',
      '> ',
      '*',
      '*a ',
      '**a*',
      '_a',
      '`',
      '<',
      '<a ',
      '<div>',
      '&',
      '#1 ',
      'a/',
      '~"',
      '@a/',
      '- ',
      '1. ',
      '~~a',
      '|a',
      'a|b\n-|-\n',
      'http://',
      'www.a.',
      'abcdef1 ',
      '[a](b',
      '[a]: b\n',
      '<!--',
      '# a\n',
      '> - ',
    ];
    for (const piece of repeated) {
      const started = computedMs();
      scanText(piece.repeat((8 * LENGTH) / piece.length), '');
      expect([piece, computedMs() - started]).toEqual([piece, expect.toSatisfy((ms) => ms < 500)]);
    }
    const nested = Array.from({ length: 250 }, (_, depth) => `${' '.repeat(2 * depth)}- a`).join('\n');
    const cells = `|${'a|'.repeat(180)}\n|${'-|'.repeat(180)}\n${'a\n'.repeat(16_000)}`;
    const sparse = `${'|'.repeat(21)}\n${'|-'.repeat(20)}|\n${'|\n'.repeat(4_000)}`.replace('||', '|a|');
    const unmatched = `${'<b>'.repeat(19_000)}${'</i>'.repeat(18_000)}`;
    const definition = `[a]: http://a.example/${'a'.repeat(4_000)}\n\n${'[a]'.repeat(1_300)}`;
    const others = [nested, cells, sparse, unmatched, definition];
    for (const piece of [...repeated.map((each) => each.repeat(LENGTH / each.length)), ...others]) {
      const started = computedMs();
      // A short text stays a short page.
      expect([piece.slice(0, 8), html(piece, { referent: HOSTILE_REFERENT }).length / piece.length]).toEqual([
        piece.slice(0, 8),
        expect.toSatisfy((factor) => factor < 45),
      ]);
      expect([piece.slice(0, 8), computedMs() - started]).toEqual([
        piece.slice(0, 8),
        expect.toSatisfy((ms) => ms < 1_500),
      ]);
    }
  });

  it('shows texts as written that would become far more than their length suggests', () => {
    const head = `${'|a'.repeat(20)}|\n${'|-'.repeat(20)}|\n`;
    expect(html(`${head}${'|\n'.repeat(1_000)}`)).toMatch(/^<p dir="auto">\|a\|a/);
    expect(html(`${head}${`${'| yes '.repeat(20)}|\n`.repeat(50)}`)).toMatch(/^<table/);
    expect(html(`${head}${`${'|0'.repeat(20)}|\n`.repeat(200)}`)).toMatch(/^<table/);
    expect(html(`a|b\n-|-\n${'1|2\n'.repeat(700)}`)).toMatch(/^<table/);
    const deep = '<b>'.repeat(300);
    expect(html(deep)).toBe(`<p dir="auto">${'&lt;b&gt;'.repeat(300)}</p>`);
    expect(html(`${'<b>'.repeat(50)}a`)).toContain(`${'<b>'.repeat(50)}a`);
    const uses = `[a]: http://a.example/${'a'.repeat(4_000)}\n\n`;
    expect(html(`${uses}[a]`)).toContain('<a href');
    expect(html(uses + '[a]'.repeat(1_000))).not.toContain('<a href');
  });

  it('waits for the worker thread only while few do', async () => {
    const options = { base: BASE, assetProxy: null };
    expect(isBusy()).toBe(false);
    const texts = Array.from({ length: 32 }, (_, n) => renderLongText(`**${n}**`, true, options));
    expect(isBusy()).toBe(true);
    const rendered = await Promise.all(texts);
    expect(rendered.map((each) => each?.html[0])).toEqual(texts.map((_, n) => `<strong>${n}</strong>`));
    expect(isBusy()).toBe(false);
  });
});
