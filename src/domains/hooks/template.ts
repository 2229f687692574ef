import { MAX_BODY_BYTES } from './model.ts';

/** A template that makes no JSON of this payload. The message is for the owner of the hook. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

const PLACEHOLDER = /\{\{([^{}]*)\}\}/g;

/**
 * Fills `{{a.b.c}}` with the JSON of what stands there in the payload; of a text without its quotes, so that it can
 * stand inside of some. A path that leads nowhere gives null. Only own properties are seen (reference: webhooks §2).
 *
 * @throws TemplateError for a path through a list, a result that is no JSON, or one that is too large
 */
export const renderTemplate = (template: string, payload: unknown): string => {
  let size = Buffer.byteLength(template);
  const rendered = template.replace(PLACEHOLDER, (_, path: string) => {
    const value = JSON.stringify(valueAt(payload, path)) ?? 'null';
    const text = value.startsWith('"') ? value.slice(1, -1) : value;
    size += Buffer.byteLength(text);
    if (size > MAX_BODY_BYTES) throw new TemplateError('The custom webhook template makes a body of more than 25 MB');
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

/** What is sent is shown again in the list of deliveries, which takes a call for each level. */
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
