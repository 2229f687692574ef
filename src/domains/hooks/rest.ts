import { deliveryRoutes } from './rest/deliveries.ts';
import { groupHookRoutes, projectHookRoutes } from './rest/hooks.ts';

export const routes = [
  ...groupHookRoutes,
  ...projectHookRoutes,
  ...deliveryRoutes('group', '/groups/:id'),
  ...deliveryRoutes('project', '/projects/:id'),
];
