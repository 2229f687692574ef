import { z } from 'zod';
import type { Endpoint, Route } from './route.ts';
import { type Mark, markOf, useOf } from './v5.ts';

/** Returns what version 5 removes and changes, as Markdown tables for docs/version-5.md. */
export const v5Tables = (routes: readonly (Route | Endpoint)[]): string => {
  const removed = routes.flatMap(({ method, path, removedInV5 }) =>
    removedInV5 ? [`| \`${method} ${path}\` | ${sentence(useOf(removedInV5))} |`] : [],
  );
  const parameters = new Rows();
  const attributes = new Rows();
  const seen = new Set<z.core.$ZodType>();
  for (const route of routes) {
    if (route.removedInV5) continue;
    for (const [name, schema] of Object.entries(route.shape)) {
      const place = `\`${route.method} ${route.path}\``;
      for (const [label, text] of differences(name, markOf(schema))) parameters.add(label, text, place);
    }
    if (route.response) addAttributes(attributes, route.response, seen, '');
  }
  return [
    table('Routes', ['Removed', 'Instead'], removed),
    table('Parameters', ['Parameter', 'In version 5', 'Routes'], parameters.lines()),
    table(
      'Attributes',
      ['Attribute', 'In version 5', 'Records, as the OpenAPI documents name them'],
      attributes.lines(),
    ),
  ].join('\n');
};

/** Rows that differ only in their place, which is their last column. */
class Rows {
  readonly #places = new Map<string, Set<string>>();

  add(label: string, text: string, place: string): void {
    const row = `| \`${label}\` | ${text} |`;
    const places = this.#places.get(row) ?? new Set();
    places.add(place);
    this.#places.set(row, places);
  }

  lines(): readonly string[] {
    return [...this.#places].map(([row, places]) => `${row} ${[...places].sort().join(', ')} |`).sort();
  }
}

const differences = (name: string, mark: Mark | undefined): readonly (readonly [label: string, text: string])[] => {
  switch (mark?.kind) {
    case 'removed':
      return [[name, sentence(useOf(mark))]];
    case 'removed_inside':
      return Object.entries(mark.names).map(([key, each]) => [`${name}[${key}]`, sentence(useOf(each))]);
    case 'changed':
      return [[name, sentence(mark.note)]];
    default:
      return [];
  }
};

const addAttributes = (rows: Rows, schema: z.core.$ZodType, seen: Set<z.core.$ZodType>, record: string): void => {
  if (seen.has(schema)) return;
  seen.add(schema);
  if (schema instanceof z.ZodObject) {
    const { id = record } = schema.meta() ?? {};
    for (const [name, field] of Object.entries(schema.shape)) {
      for (const [label, text] of differences(name, markOf(field))) rows.add(label, text, `\`${id}\``);
      addAttributes(rows, field, seen, String(id));
    }
  } else if (schema instanceof z.ZodUnion) {
    for (const option of schema.options) addAttributes(rows, option, seen, record);
  } else if (schema instanceof z.ZodArray) addAttributes(rows, schema.element, seen, record);
  else if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    addAttributes(rows, schema.def.innerType, seen, record);
  }
};

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

const table = (title: string, columns: readonly string[], rows: readonly string[]): string =>
  [`### ${title}`, '', `| ${columns.join(' | ')} |`, `|${'---|'.repeat(columns.length)}`, ...rows, ''].join('\n');
