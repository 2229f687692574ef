import MarkdownIt, { type MarkdownIt as Parser, type StateBlock, type Token } from 'markdown-it';
import { limitSize, limitTokens } from './budget.ts';
import { MARK } from './env.ts';
import { addHeadingIds } from './headings.ts';
import { addReferences } from './references.ts';
import { addTasks } from './tasks.ts';

/** Blocks and inline text: CommonMark with the tables, strikethrough, task lists and URLs of GFM. */
const createFull = (): Parser => {
  const full = new MarkdownIt({ html: true, linkify: true, maxNesting: 50 });
  full.core.ruler.before('text_join', 'tasks', addTasks);
  full.core.ruler.before('text_join', 'heading_ids', addHeadingIds);
  full.core.ruler.before('text_join', 'references', addReferences);
  for (const type of ['paragraph_open', 'heading_open', 'bullet_list_open', 'ordered_list_open', 'table_open']) {
    full.renderer.rules[type] = (tokens, index, options, _env, self) => {
      tokens[index]?.attrSet('dir', 'auto');
      return self.renderToken(tokens, index, options);
    };
  }
  for (const type of ['th_open', 'td_open']) {
    full.renderer.rules[type] = (tokens, index, options, _env, self) => {
      alignByAttribute(tokens[index]);
      return self.renderToken(tokens, index, options);
    };
  }
  full.renderer.rules.fence = (tokens, index) => codeBlock(full, tokens[index]);
  full.renderer.rules.code_block = (tokens, index) => codeBlock(full, tokens[index]);
  return full;
};

/** One line: emphasis, strikethrough, code and URLs. */
const createInline = (): Parser => {
  const inline = new MarkdownIt('zero', { linkify: true, maxNesting: 50 });
  inline.enable(['linkify', 'autolink', 'emphasis', 'strikethrough', 'backticks', 'entity', 'escape']);
  inline.core.ruler.before('text_join', 'references', addReferences);
  return inline;
};

/** Adds what both parsers share. Only what is certainly a URL becomes a link: a scheme, or `www.`. */
const shared = (parser: Parser): Parser => {
  parser.block.State = class extends parser.block.State {
    override push(...token: Parameters<StateBlock['push']>): Token {
      limitTokens(this.tokens.length, this.src);
      return super.push(...token);
    }
  };
  // The inline text is not parsed if there are too many blocks already.
  parser.core.ruler.after('block', 'limit_blocks', limitSize);
  parser.core.ruler.after('inline', 'limit_all', limitSize);
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
  parser.linkify.add('www.', {
    validate: (text, pos) => WWW.exec(text.slice(pos, pos + MAX_URL))?.[0].length ?? 0,
    normalize: (match) => {
      match.url = `http://${match.url}`;
    },
  });
  parser.renderer.rules.s_open = () => '<del>';
  parser.renderer.rules.s_close = () => '</del>';
  parser.renderer.rules.reference = (tokens, index) => `${MARK}t${tokens[index]?.content ?? ''}${MARK}`;
  return parser;
};

const MAX_URL = 2_048;
const WWW = /^[\w-]+(?:\.[\w-]+)+(?:\/[\w/#?&=%~+.,;:@!-]*[\w/#=&%~+-])?/;

const alignByAttribute = (token: Token | undefined): void => {
  const align = /^text-align:(left|center|right)$/.exec(String(token?.attrGet('style') ?? ''))?.[1];
  if (token) token.attrs = align === undefined ? null : [['align', align]];
};

const codeBlock = ({ utils }: Parser, token: Token | undefined): string => {
  const language = /^[\w+#.-]{1,50}/.exec(token?.info.trim() ?? '')?.[0] ?? 'plaintext';
  const lang = utils.escapeHtml(language);
  const code = utils.escapeHtml(token?.content ?? '');
  return `<pre class="code highlight" lang="${lang}" data-canonical-lang="${lang}"><code>${code}</code></pre>\n`;
};

export const fullParser = shared(createFull());
export const inlineParser = shared(createInline());
