import { readFile } from 'node:fs/promises';
import { type Samples, sampleOf } from './samples.ts';

/** A request for one page of a list. */
export interface PageRequest {
  /** The declared list, such as `/projects/{id}/issues` or `Project.issues`. */
  readonly list: string;
  /** The order or the filter that it sets. */
  readonly what: string;
  readonly path: string | { readonly query: string };
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly items?: Schema;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: Schema;
}

interface OpenApi {
  readonly paths: Readonly<Record<string, { readonly get?: { readonly parameters?: readonly Parameter[] } }>>;
}

const FILTERS = 10;
const NO_FILTERS = new Set(['page', 'per_page', 'pagination', 'order_by', 'sort', 'cursor', 'id_after', 'id_before']);

/** Returns a page of each REST list that takes pages: plain, with each of its orders, and with its first ten filters. */
export const restLists = async (samples: Samples): Promise<PageRequest[]> => {
  const text = await readFile(new URL('../../../schema/openapi.json', import.meta.url), 'utf8');
  const { paths }: OpenApi = JSON.parse(text);
  return Object.entries(paths).flatMap(([template, { get }]) => {
    const parameters = get?.parameters ?? [];
    if (!parameters.some(({ name }) => name === 'per_page')) return [];
    const path = template.replaceAll(/(\w+)\/\{(\w+)\}/g, (_, folder: string, name: string) => {
      const value = samples.values.get(`${folder}/${name}`) ?? samples.values.get(name) ?? '1';
      return `${folder}/${encodeURIComponent(value)}`;
    });
    const queries = parameters.filter((parameter) => parameter.in === 'query');
    const needed = queries
      .filter(({ required }) => required)
      .map((each) => [each.name, filterValue(samples, each) ?? 'main']);
    const request = (what: string, extra: readonly (readonly string[])[]): PageRequest => ({
      list: template.replace('/api/v4', ''),
      what,
      path: `${path}?${[...needed, ...extra].map(([name = '', value = '']) => `${name}=${encodeURIComponent(value)}`).join('&')}`,
    });
    const orders = queries.find(({ name }) => name === 'order_by')?.schema.enum ?? [''];
    const directions = queries.find(({ name }) => name === 'sort')?.schema.enum ?? [];
    const filters = queries.flatMap((parameter) => {
      const value = NO_FILTERS.has(parameter.name) || parameter.required ? null : filterValue(samples, parameter);
      const name = parameter.schema.type === 'array' ? `${parameter.name}[]` : parameter.name;
      return value === null ? [] : [request(`${name}=${value}`, [[name, value]])];
    });
    return [
      request('plain', []),
      ...orders.flatMap((order) =>
        directions.map((direction) =>
          request(`${order} ${direction}`.trim(), [...(order ? [['order_by', order]] : []), ['sort', direction]]),
        ),
      ),
      ...filters.slice(0, FILTERS),
    ];
  });
};

const filterValue = (samples: Samples, { name, schema }: Parameter): string | null => {
  const inner = schema.type === 'array' ? (schema.items ?? schema) : schema;
  const type = Array.isArray(inner.type) ? inner.type[0] : inner.type;
  const kind = inner.format?.startsWith('date') ? inner.format : type;
  return sampleOf(samples, name, { kind, options: inner.enum });
};
