import type { Context } from '#platform/context.ts';
import type { OpenFile } from '#platform/storage/storage.ts';
import { integer, text } from './params.ts';
import { type Route, streamRoute } from './route.ts';

interface Shown {
  readonly contentType: string;
  readonly file: OpenFile;
  /** True when everyone who has the URL may see the picture. */
  readonly isPublic: boolean;
}

interface PictureRoute {
  readonly of: 'user' | 'group' | 'project' | 'projects/topic';
  readonly tag: string;
  readonly summary: string;
  /**
   * Opens the picture with the filename from `avatar_url`.
   * @throws DomainError `not_found`
   */
  open(ctx: Context, id: number, name: string): Promise<Shown>;
}

/** Declares the route that serves the pictures of `avatar_url`. */
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
          // Prevents the browser from running anything in the file.
          'Content-Security-Policy': "default-src 'none'; sandbox",
          // A new picture gets a new name. Pictures that are not public are authorised on each request.
          ...(isPublic ? { 'Cache-Control': 'public, max-age=31536000, immutable' } : {}),
        },
      };
    },
  });
