import type { Context } from '#platform/context.ts';
import type { OpenFile } from '#platform/storage/storage.ts';
import { integer, text } from './params.ts';
import { type Route, streamRoute } from './route.ts';

interface Shown {
  readonly contentType: string;
  readonly file: OpenFile;
  /** Whoever has the address may see it. */
  readonly isPublic: boolean;
}

interface PictureRoute {
  readonly of: 'user' | 'group' | 'project' | 'projects/topic';
  readonly tag: string;
  readonly summary: string;
  /** The picture under the name that `avatar_url` gives. @throws DomainError `not_found` */
  open(ctx: Context, id: number, name: string): Promise<Shown>;
}

/** Where the pictures are that records link to as `avatar_url`. */
export const pictureRoute = ({ of, tag, summary, open }: PictureRoute): Route =>
  streamRoute({
    method: 'GET',
    path: `/uploads/-/system/${of}/avatar/:id/:filename`,
    root: true,
    tag,
    summary,
    auth: 'optional',
    scopes: [],
    input: { id: integer({ min: 0 }), filename: text() },
    run: async (ctx, { id, filename }) => {
      const { contentType, file, isPublic } = await open(ctx, id, filename);
      return {
        stream: file.stream,
        size: file.size,
        contentType,
        headers: {
          // Whatever is in it, it is shown as a picture or not at all.
          'Content-Security-Policy': "default-src 'none'; sandbox",
          // Another picture has another name. Who may see what is not public is asked each time.
          ...(isPublic ? { 'Cache-Control': 'public, max-age=31536000, immutable' } : {}),
        },
      };
    },
  });
