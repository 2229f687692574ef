import { MAX_BODY_BYTES } from '../model.ts';

/** The template does not render to valid JSON for this payload. The message is for people who administer the hook. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

const PLACEHOLDER = /\{\{([^{}]*)\}\}/g;

/**
 * Replaces each `{{a.b.c}}` by the JSON of the value at that path in the payload. Strings lose their quotes, so that
 * they can stand inside other strings. A missing path renders as null. Only own properties are read (reference:
 * webhooks §2).
 *
 * @throws TemplateError for a path through a list, a result that is not valid JSON, or one that is too large
 */
export const renderTemplate = (template: string, payload: unknown): string => {
  let size = Buffer.byteLength(template);
  const rendered = template.replace(PLACEHOLDER, (_, path: string) => {
    const value = JSON.stringify(valueAt(payload, path)) ?? 'null';
    const text = value.startsWith('"') ? value.slice(1, -1) : value;
    size += Buffer.byteLength(text);
    if (size > MAX_BODY_BYTES) throw new TemplateError('The custom webhook template renders to more than 25 MB');
    return text;
  });
  let parsed: unknown;
  try {
    parsed = JSON.parse(rendered);
  } catch {
    throw new TemplateError('The custom webhook template does not render to valid JSON');
  }
  if (isDeep(parsed)) throw new TemplateError(`The custom webhook template nests deeper than ${MAX_DEPTH} levels`);
  return rendered;
};

/** The body is parsed again for the list of deliveries, which recurses once per level. */
const MAX_DEPTH = 100;

const isDeep = (value: unknown): boolean => {
  let level = [value];
  for (let depth = 0; depth <= MAX_DEPTH; depth++) {
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []));
    if (level.length === 0) return false;
  }
  return true;
};

const valueAt = (payload: unknown, path: string): unknown => {
  let value = payload;
  for (const key of path.split('.')) {
    if (Array.isArray(value)) throw new TemplateError(`The custom webhook template reaches into a list: {{${path}}}`);
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return null;
    value = Reflect.get(value, key);
  }
  return value;
};
