import { pictureRoute } from '#rest/picture-route.ts';
import { openProjectAvatar } from '../avatar.ts';

export const avatarRoute = pictureRoute({
  of: 'project',
  tag: 'Projects',
  summary: "Get a project's avatar",
  open: openProjectAvatar,
});
