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
  try {
    JSON.parse(rendered);
  } catch {
    throw new TemplateError('The custom webhook template does not render to valid JSON');
  }
  return rendered;
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
