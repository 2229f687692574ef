import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { renderTexts } from './html.ts';
import type { Prose } from './model.ts';

/** Renders a text as HTML for the caller, together with the other texts of the request. */
export const loadHtml: (ctx: Context, prose: Prose) => Promise<string | null> = loader(
  async (ctx: Context, proses: readonly Prose[]) => {
    const html = await renderTexts(ctx, proses);
    return new Map(proses.map((prose, index) => [prose, html[index] ?? '']));
  },
);
