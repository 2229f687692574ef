import type { NormalizedBreadcrumb, NormalizedEvent } from '#domains/error-tracking/event.ts';
import type { JsonObject } from '#platform/values/json.ts';
import type { Cutter } from './cutter.ts';
import { scrubText } from './scrubbing.ts';
import { textOf } from './stacks.ts';
import type { SenderClock } from './times.ts';
import { asEntries, asList, asObject, asText } from './values.ts';

const MAX_MESSAGE = 8_192;
const MAX_PARAMETERS = 100;
const MAX_BREADCRUMBS = 100;
const CRUMB_DATA = { characters: 2_048, depth: 5 };

/** Reads the message of an event: a text, `{message, formatted, params}`, or any other JSON, which becomes a text. */
export const readMessage = (value: unknown, cutter: Cutter): NormalizedEvent['message'] => {
  if (value === undefined || value === null || value === false || value === '') return null;
  const object = asObject(value);
  const cut = (text: string) => cutter.text(scrubText(text), MAX_MESSAGE, 'message');
  if (!object) return { template: null, formatted: cut(asText(value) ?? jsonText(value, cutter)) };
  const template = asText(object.message);
  const formatted = asText(object.formatted);
  if (template === null && formatted === null) {
    return Object.keys(object).length === 0 ? null : { template: null, formatted: cut(jsonText(object, cutter)) };
  }
  const filled = formatted || fillIn((template ?? '').slice(0, MAX_MESSAGE), object.params, cutter);
  if (filled === '') return null;
  return { template: template === null || template === filled ? null : cut(template), formatted: cut(filled) };
};

const jsonText = (value: unknown, cutter: Cutter): string =>
  JSON.stringify(cutter.json(value, { characters: MAX_MESSAGE, depth: 7 }, 'message'));

/** Fills in `%s`, `%d`, `%(name)s`, `{}` and `{name}`. A placeholder without a parameter stays. */
const fillIn = (template: string, params: unknown, cutter: Cutter): string => {
  const list = Array.isArray(params) ? params.slice(0, MAX_PARAMETERS) : [];
  const named = new Map(asEntries(asObject(params)).slice(0, MAX_PARAMETERS));
  if (list.length === 0 && named.size === 0) return template;
  const show = (value: unknown) => (asText(value) ?? jsonText(value, cutter)).slice(0, 1_024);
  let next = 0;
  return template.replaceAll(/%%|%\((\w{1,64})\)[a-z]|%[a-z]|\{(\w{0,64})\}/gi, (match, byPercent, byBrace) => {
    if (match === '%%') return '%';
    const name: string = byPercent ?? byBrace ?? '';
    if (name !== '') return named.has(name) ? show(named.get(name)) : match;
    return next < list.length ? show(list[next++]) : match;
  });
};

/** Reads breadcrumbs, oldest first. */
export const readBreadcrumbs = (value: unknown, clock: SenderClock, cutter: Cutter): readonly NormalizedBreadcrumb[] =>
  cutter.last(asList(value), MAX_BREADCRUMBS, 'breadcrumbs').flatMap((item, index) => {
    const crumb = asObject(item);
    return crumb ? [readBreadcrumb(crumb, clock, cutter, `breadcrumbs.${index}`)] : [];
  });

const readBreadcrumb = (given: JsonObject, clock: SenderClock, cutter: Cutter, path: string): NormalizedBreadcrumb => {
  const data = asObject(given.data);
  return {
    timestamp: clock.read(given.timestamp),
    type: textOf(given.type, 64, cutter, `${path}.type`),
    category: textOf(given.category, 128, cutter, `${path}.category`),
    level: textOf(given.level, 32, cutter, `${path}.level`),
    message: textOf(scrubText(asText(given.message) ?? ''), 2_048, cutter, `${path}.message`),
    data: data && cutter.object(data, CRUMB_DATA, CRUMB_DATA.characters, `${path}.data`),
  };
};
