import { integer, text } from '#rest/params.ts';
import { streamRoute } from '#rest/route.ts';
import { openProjectAvatar } from '../avatar.ts';

export const avatarRoute = streamRoute({
  method: 'GET',
  path: '/uploads/-/system/project/avatar/:id/:filename',
  root: true,
  tag: 'Projects',
  summary: "Get a project's avatar",
  auth: 'optional',
  scopes: [],
  input: { id: integer({ min: 0 }), filename: text() },
  run: async (ctx, { id, filename }) => {
    const { contentType, file, isPublic } = await openProjectAvatar(ctx, id, filename);
    return {
      stream: file.stream,
      size: file.size,
      contentType,
      headers: {
        // Whatever is in it, it is shown as a picture or not at all.
        'Content-Security-Policy': "default-src 'none'; sandbox",
        // Another picture has another name. Who may see that of a private project is asked each time.
        ...(isPublic ? { 'Cache-Control': 'public, max-age=31536000, immutable' } : {}),
      },
    };
  },
});
