import fc from 'fast-check';
import type { Referent } from '#domains/markdown/model.ts';

// Texts and references that try to become markup that acts.

export const BASE = 'http://hub.example:8080';
export const SECRET = '0123456789abcdef0123456789abcdef';

/** Markup that browsers repair: what it becomes depends on what surrounds it. */
const REPAIRED = [
  ...['</article>', '</main>', '</div>', '</p>', '</a>', '</td>', '</table>', '</template>', '</svg>', '</body>'],
  ...['<table>', '<tr>', '<td>', '<b>', '<li>', '<p>', '<details>', '<a href=x>', '<ruby><rt>', '<caption>', '<col>'],
  ...[
    '<select><option>',
    '<template>',
    '<plaintext>',
    '<frameset>',
    '<body onload=alert(1)>',
    '<base href=//evil.example>',
  ],
  ...['<svg><style>', '<math><mtext><table><mglyph><style>', '<svg></p><style><a id="', '<noembed>', '<!doctype x>'],
  ...[
    '<svg><use href=x>',
    '<object data=x>',
    '<embed src=x>',
    '<meta http-equiv=refresh content=0>',
    '<link rel=x href=y>',
  ],
];

const PIECES = [
  ...REPAIRED,
  ...[
    '<',
    '>',
    '"',
    "'",
    '`',
    '=',
    '/',
    '\\',
    '&',
    '#',
    '\n',
    '\n\n',
    ' ',
    '\t',
    '\0',
    '\u2028',
    '[',
    ']',
    '(',
    ')',
    '!',
  ],
  ...[
    '<script>',
    '</script>',
    'alert(1)',
    '<img src=x onerror=alert(1)>',
    '<svg onload=alert(1)>',
    '<style>*{}</style>',
  ],
  ...[
    '<a href="',
    '<a title="',
    "<div title='",
    '<p style="position:fixed">',
    'javascript:alert(1)',
    'data:text/html,x',
  ],
  ...[
    '&#106;avascript:',
    'java\tscript:',
    'java&#9;script:',
    '&#1;',
    '&Tab;',
    '<img src="',
    'http://[',
    '">x</a>',
    'mailto:a@b.example',
    'JaVaScRiPt&colon;',
    'vbscript:x',
    '<math>',
    '<textarea>',
    '<xmp>',
    '<title>',
  ],
  ...[
    '<!--',
    '-->',
    '<![CDATA[',
    ']]>',
    '<?',
    '<noscript>',
    '<iframe src=x>',
    '<form action=x>',
    '<input type=image src=x>',
  ],
  ...[
    '#1',
    '!2',
    '@a',
    '~b',
    '~"c"',
    '%d',
    'abcdef12',
    'g/p#1',
    `${BASE}/g/p/-/issues/1`,
    `/uploads/${SECRET}/f`,
    'x.md',
  ],
  ...[
    '- [x] ',
    '> ',
    '# ',
    '```',
    '|',
    '|-|',
    '[x](',
    '![x](',
    '**',
    '__',
    '~~',
    '[a]: ',
    '<http://a>',
    ' onclick=x ',
    't0',
    'a0',
  ],
];
/** The target of every reference. All of its visible parts are hostile. */
export const HOSTILE_REFERENT: Referent = {
  href: `${BASE}/"><script>`,
  text: '<img src=x>',
  title: '" onmouseover="alert(1)',
  className: 'gfm-issue',
  data: { iid: '"><b>' },
  colors: { background: '#ff0000', text: '#FFFFFF' },
};
const URL_PARTS = ['java', 'script:', 'alert(1)', 'data', ':', 'http:', '//', '/', '\\', 'evil.example', '[', 'x'];
const scattered = fc
  .array(fc.constantFrom(...URL_PARTS, '&#9;', '&Tab;', '&#10;', '&#1;', ' '), { maxLength: 6 })
  .map((parts) => parts.join(''));
const element = fc.oneof(
  scattered.map((url) => `<a href="${url}">x</a>`),
  scattered.map((url) => `<img src="${url}">`),
);
/** Hostile texts. */
export const hostileText = fc
  .array(
    fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom(...PIECES) },
      { weight: 2, arbitrary: element },
      fc.string({ unit: 'grapheme', maxLength: 4 }),
    ),
    { maxLength: 24 },
  )
  .map((parts) => parts.join(''));
