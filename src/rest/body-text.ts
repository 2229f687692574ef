import { badParameters } from '#platform/errors.ts';
import { JsonLimitError, type JsonLimits, parseJson } from '#platform/values/json.ts';
import type { BodyKind } from './large-bodies.ts';
import { parseForm } from './nested.ts';

/**
 * Parses the text of a body. Returns undefined when it is empty.
 * @throws DomainError `parameters`
 */
export const readBodyText = (kind: BodyKind, text: string, limits: JsonLimits): unknown => {
  if (kind === 'form') return parseForm(text, { mayRepeat: true });
  if (text.trim() === '') return undefined;
  try {
    return parseJson(text, limits);
  } catch (error) {
    throw badParameters(`body ${error instanceof JsonLimitError ? error.message : 'is not valid JSON'}`);
  }
};
