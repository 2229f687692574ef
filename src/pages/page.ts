import type { Context } from '#platform/context.ts';
import { type Input, inputParser, type NoInput, type Shape, shapeOf } from '#rest/input.ts';
import type { Parameters } from '#rest/nested.ts';
import type { Visit } from './visit.ts';

/** The response of a page. `visit.show` and `visit.redirect` create it. */
export interface PageResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Declaration {
  readonly method: 'GET' | 'POST';
  /** Path from the root of the host, such as `/-/user_settings/password`. `:name` matches one segment, `*name` one or more. */
  readonly path: string;
  /**
   * With `required`, anonymous callers must sign in first and then return to the page. `administrator` also refuses
   * everyone who is not one.
   */
  readonly auth: 'administrator' | 'required' | 'optional';
  /** Whether another site posts here, without a CSRF token. The content must then authenticate itself. */
  readonly fromElsewhere?: true;
  /** Maximum size of a form that is larger than the usual limit, in bytes. */
  readonly maxFormBytes?: number;
}

type Run<S extends Shape> = (ctx: Context, input: Input<S>, visit: Visit) => Promise<PageResponse> | PageResponse;

/** A declared page with its input types hidden. */
export interface Page extends Declaration {
  handle(ctx: Context, sent: Parameters, visit: Visit): Promise<PageResponse> | PageResponse;
}

/**
 * Declares a page. `run` receives the parsed parameters of path, query and form in one object. The CSRF token of a POST
 * is checked first, except with `fromElsewhere`. A thrown error becomes an error page, so show errors that the user can
 * fix with the form instead.
 */
export const page = <const S extends Shape = NoInput>(
  declaration: Declaration & { readonly input?: S; readonly run: Run<S> },
): Page => {
  const { input: _, run, ...declared } = declaration;
  const parse = inputParser(shapeOf<S>(declaration));
  return { ...declared, handle: (ctx, sent, visit) => run(ctx, parse(sent), visit) };
};
