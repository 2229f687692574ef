import { z } from 'zod';
import { notFound } from '#platform/errors.ts';
import { integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';

const tag = 'Geo';

const siteRecord = z
  .object({ id: z.int(), name: z.string(), url: z.string(), primary: z.boolean(), enabled: z.boolean() })
  .meta({ id: 'GeoSite' });
const statusRecord = z
  .object({ geo_node_id: z.int(), healthy: z.boolean(), health_status: z.string() })
  .meta({ id: 'GeoSiteStatus' });

/** This hub has no replicas: the lists are empty. Version 5 only has the name `geo_sites` (specification 3 §9). */
const routesAt = (name: 'geo_nodes' | 'geo_sites'): readonly Route[] => {
  const removal = (more: string) => {
    const successor = `/geo_sites${more}`;
    return name === 'geo_nodes' ? { removedInV5: { replacedBy: `GET ${successor}`, successor } } : {};
  };
  return [
    listRoute({
      path: `/${name}`,
      tag,
      summary: `List the replicas of the instance (${name})`,
      description: 'The hub has none.',
      admin: true,
      paging: 'offset',
      item: siteRecord,
      ...removal(''),
      run: async () => ({ items: [], total: 0 }),
    }),
    listRoute({
      path: `/${name}/status`,
      tag,
      summary: `List the states of the replicas (${name})`,
      description: 'The hub has none.',
      admin: true,
      paging: 'offset',
      item: statusRecord,
      ...removal('/status'),
      run: async () => ({ items: [], total: 0 }),
    }),
    route({
      method: 'GET',
      path: `/${name}/:id`,
      tag,
      summary: `Get a replica of the instance (${name})`,
      description: 'The hub has none.',
      admin: true,
      input: { id: integer({ min: 1 }) },
      response: siteRecord,
      ...removal('/:id'),
      run: () => Promise.reject(notFound('Geo Site')),
    }),
  ];
};

export const geoRoutes: readonly Route[] = [...routesAt('geo_nodes'), ...routesAt('geo_sites')];
