import { hash } from 'node:crypto';
import { defineCache } from '#platform/cache.ts';
import type { Context } from '#platform/context.ts';
import { isBusy, renderLongText } from './long-texts.ts';
import { MAX_RENDERED, type Prose, plainTemplate, type RenderOptions, type Template } from './model.ts';

/** Longer texts are rendered in a worker thread. */
const MAX_INLINE = 8 * 1024;
/** The most that one call may render there, in characters. */
const MAX_LONG = 1024 * 1024;
/** How long texts are rendered before other work gets its turn. */
const TURN_MS = 5;

/** Returns about how many bytes a template takes in memory, with the strings of its slots. */
export const weightOf = ({ html, slots }: Template): number => {
  const strings = [...html, ...slots.flatMap((slot) => Object.values(slot))].filter((each) => typeof each === 'string');
  return strings.reduce((sum, each) => sum + 2 * each.length, 400 + 300 * slots.length);
};

/** Longer texts go by a digest, which keeps keys small. Hashing short ones would cost a list of projects 4 % of its time. */
const MAX_KEY = 256;

/**
 * By the text or its digest, and options. Templates are the same for all readers: references are resolved for each of
 * them.
 */
const cachedTemplates = defineCache<string, Template>({
  name: 'rendered texts',
  limit: 32 * 1024 * 1024,
  weightOf,
});

type Text = Pick<Prose, 'inline'> & { readonly text: string };

/**
 * Returns the templates of texts, in their order. A text of more than `MAX_RENDERED` characters stays plain, and so do
 * the texts after the first million characters of long texts in one call that are not in the cache, and long texts while
 * too many wait for the worker thread. So do texts that take too long, and those that cannot be rendered, which are tried
 * again the next time.
 *
 * @param variant Differs whenever the options give a different result
 */
export const templatesOf = async (
  { services }: Pick<Context, 'services'>,
  texts: readonly Text[],
  options: RenderOptions,
  variant: string,
): Promise<Template[]> => {
  const cache = cachedTemplates(services);
  const templates: Template[] = [];
  let long = 0;
  let turn = performance.now();
  for (const { text, inline = false } of texts) {
    const key = `${inline ? 'i' : 'b'}${variant} ${text.length > MAX_KEY ? hash('sha256', text, 'base64') : `=${text}`}`;
    const known = cache.get(key);
    if (known) {
      templates.push(known);
      continue;
    }
    const isLong = text.length > MAX_INLINE;
    if (isLong) long += text.length;
    if (text.length > MAX_RENDERED || long > MAX_LONG || (isLong && isBusy())) {
      templates.push(plainTemplate(text, inline));
      continue;
    }
    try {
      const template = (await rendered(text, inline, options)) ?? plainTemplate(text, inline);
      cache.set(key, template);
      templates.push(template);
    } catch (error) {
      // One text must not fail the list that contains it.
      services.log.error({ err: error }, 'could not render a text');
      templates.push(plainTemplate(text, inline));
    }
    if (performance.now() - turn > TURN_MS) {
      await new Promise((resolve) => setImmediate(resolve));
      turn = performance.now();
    }
  }
  return templates;
};

/** Null if it takes too long. */
const rendered = async (text: string, inline: boolean, options: RenderOptions): Promise<Template | null> => {
  if (text.trim() === '') return { html: [''], slots: [] };
  if (text.length > MAX_INLINE) return renderLongText(text, inline, options);
  // Loaded with the first text.
  return (await import('./rendering/render.ts')).render(text, inline, options);
};
