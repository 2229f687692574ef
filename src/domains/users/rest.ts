import { activityRoutes } from './rest/activities.ts';
import { emailRoutes } from './rest/emails.ts';
import { followRoutes } from './rest/follows.ts';
import { profileRoutes } from './rest/profile.ts';
import { stateRoutes } from './rest/states.ts';
import { userRoutes } from './rest/users.ts';

export { currentPassword } from './rest/proof.ts';

export const routes = [
  ...userRoutes,
  ...profileRoutes,
  ...stateRoutes,
  ...followRoutes,
  ...emailRoutes,
  ...activityRoutes,
];
