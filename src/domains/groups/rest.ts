import { customAttributeRoutes } from '#domains/custom-attributes/rest.ts';
import { idOrPath } from '#rest/params.ts';
import { getGroup } from './queries.ts';
import { groupRoutes } from './rest/groups.ts';
import { listRoutes } from './rest/lists.ts';
import { namespaceRoutes } from './rest/namespaces.ts';
import { sharingRoutes } from './rest/sharing.ts';

export const routes = [
  ...customAttributeRoutes('groups', idOrPath(), getGroup),
  ...listRoutes,
  ...groupRoutes,
  ...sharingRoutes,
  ...namespaceRoutes,
];
