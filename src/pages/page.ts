import type { Context } from '#platform/context.ts';
import type { Parameters } from '#rest/nested.ts';
import { type Input, inputParser, type Shape } from '#rest/params.ts';
import type { Visit } from './visit.ts';

/** What a page answers; `visit.show` and `visit.redirect` make it. */
export interface PageResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Declaration {
  readonly method: 'GET' | 'POST';
  /** From the root of the host, `/-/user_settings/password`; `:name` stands for a segment. */
  readonly path: string;
  /** `required` sends visitors to sign in first, and back afterwards. */
  readonly auth: 'required' | 'optional';
  /** Browsers are sent here by another site, which has no CSRF token: what comes has to prove itself. */
  readonly fromElsewhere?: true;
  /** For forms larger than the usual limit. */
  readonly maxFormBytes?: number;
}

type Run<S extends Shape> = (ctx: Context, input: Input<S>, visit: Visit) => Promise<PageResponse> | PageResponse;

/** A declared page, its types closed over. */
export interface Page extends Declaration {
  handle(ctx: Context, sent: Parameters, visit: Visit): Promise<PageResponse> | PageResponse;
}

type NoInput = Readonly<Record<never, never>>;

/**
 * Declares a page. `run` gets the parsed parameters of path, query and form in one object. Before a POST runs, its CSRF
 * token has been checked, unless it comes `fromElsewhere`. What it throws becomes a page that says so: errors that the person can mend are better shown
 * with the form.
 */
export const page = <const S extends Shape = NoInput>(
  declaration: Declaration & { readonly input?: S; readonly run: Run<S> },
): Page => {
  const { input, run, ...declared } = declaration;
  const shape: Shape = input ?? {};
  // Without `input`, S is the default, which has no keys.
  const parse = inputParser(shape as S);
  return { ...declared, handle: (ctx, sent, visit) => run(ctx, parse(sent), visit) };
};
