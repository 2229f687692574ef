import { readCookie, sessionCookieName } from '#platform/caller/cookies.ts';
import { csrfToken } from '#platform/caller/csrf.ts';
import type { Context } from '#platform/context.ts';
import { decrypt, encrypt, randomToken } from '#platform/secrets.ts';
import type { PageResponse } from './page.ts';

export interface ShowOptions {
  /** Defaults to 200. */
  readonly status?: number;
  /**
   * Whether the response to a form of this page redirects to another host. Browsers apply `form-action` to every
   * redirect that follows a form, and that host may redirect further. The page is therefore sent without `form-action`.
   */
  readonly leadsAway?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

interface CookieOptions {
  /** In seconds. Without it the cookie lasts until the browser closes. */
  readonly maxAge?: number;
}

const NOTICE = 'millrace_notice';
const NOTICE_SECONDS = 60;
const SESSION_VALUE_LENGTH = 43;

/** Returns a session cookie value for an anonymous browser: 258 random bits that match no session. */
const newSessionValue = (): string => randomToken(SESSION_VALUE_LENGTH);

/** One page request: its user, and the response under construction. */
export class Visit {
  /** The session's row. Null for anonymous callers. */
  readonly session: { readonly id: number } | null;
  /** Name of the signed-in user. */
  readonly username: string | null;
  /** Path and query, as sent. */
  readonly url: string;
  /** The one-time notice from the previous page. */
  readonly notice: string | null;
  readonly #ctx: Context;
  readonly #cookieHeader: string | undefined;
  readonly #set = new Map<string, string>();
  #value: string | null;

  constructor(ctx: Context, request: { readonly url: string; readonly cookie: string | undefined }) {
    const { credential } = ctx.actor;
    this.#ctx = ctx;
    this.url = request.url;
    this.#cookieHeader = request.cookie;
    this.session = credential?.kind === 'session' ? { id: credential.id } : null;
    this.username = this.session ? ctx.actor.username : null;
    this.#value = readCookie({ cookie: request.cookie }, sessionCookieName(ctx.services.urls));
    this.notice = this.readSealed(NOTICE);
  }

  /**
   * The value of the hidden field `authenticity_token` in every form. Anonymous callers get a cookie without a session
   * to bind it to, so that no site can sign them in as another user.
   */
  get csrfToken(): string {
    if (this.#value === null) this.setSessionCookie(newSessionValue());
    return csrfToken(this.#ctx.services.secretKey, this.#value ?? '');
  }

  /** The session cookie as sent, to which CSRF tokens are bound. */
  get sessionValue(): string | null {
    return this.#value;
  }

  setSessionCookie(value: string): void {
    this.#value = value;
    this.#setCookie(sessionCookieName(this.#ctx.services.urls), value);
  }

  clearSessionCookie(): void {
    this.#value = null;
    this.#setCookie(sessionCookieName(this.#ctx.services.urls), '', { maxAge: 0 });
  }

  /** Returns the content of a sealed cookie. Null when it is missing or was not sealed by this hub. */
  readSealed(name: string): string | null {
    const sent = readCookie({ cookie: this.#cookieHeader }, this.#cookieName(name));
    if (sent === null || sent.length > 4_000) return null;
    try {
      return decrypt(this.#ctx.services.secretKey, Buffer.from(sent, 'base64url'), name);
    } catch {
      return null;
    }
  }

  /** Stores `text` in a sealed cookie for `maxAge` seconds. The browser cannot read it. */
  seal(name: string, text: string, maxAge: number): void {
    const sealed = encrypt(this.#ctx.services.secretKey, text, name).toString('base64url');
    this.#setCookie(this.#cookieName(name), sealed, { maxAge });
  }

  /** Deletes a sealed cookie, if the browser has it. */
  forget(name: string): void {
    const cookie = this.#cookieName(name);
    if (this.#cookieHeader?.includes(`${cookie}=`)) this.#setCookie(cookie, '', { maxAge: 0 });
  }

  /** Redirects with GET to a path of the hub or, for consent, to an application. The next page shows `notice`. */
  redirect(location: string, { notice }: { readonly notice?: string } = {}): PageResponse {
    if (notice !== undefined) this.seal(NOTICE, notice, NOTICE_SECONDS);
    return { status: 303, headers: { Location: location }, body: '' };
  }

  /** Responds with a whole document, made by `layout`. */
  show(html: string, { status = 200, leadsAway = false, headers = {} }: ShowOptions = {}): PageResponse {
    if (this.notice !== null) this.forget(NOTICE);
    return {
      status,
      headers: {
        ...headers,
        'Content-Type': 'text/html; charset=utf-8',
        'Content-Security-Policy': securityPolicy({ leadsAway }),
      },
      body: html,
    };
  }

  /** The `Set-Cookie` lines of the response. */
  get setCookies(): readonly string[] {
    return [...this.#set.values()];
  }

  get #secure(): boolean {
    return this.#ctx.services.urls.base.startsWith('https:');
  }

  #cookieName(name: string): string {
    return this.#secure ? `__Host-${name}` : name;
  }

  #setCookie(name: string, value: string, { maxAge }: CookieOptions = {}): void {
    const parts = [`${name}=${value}`, 'Path=/', 'HttpOnly', 'SameSite=Lax'];
    if (this.#secure) parts.push('Secure');
    if (maxAge !== undefined) parts.push(`Max-Age=${maxAge}`);
    this.#set.set(name, parts.join('; '));
  }
}

/** Returns the `Content-Security-Policy` of a page. */
export const securityPolicy = ({ leadsAway = false }: Pick<ShowOptions, 'leadsAway'> = {}): string =>
  `default-src 'none'; style-src 'self'; img-src 'self' data:; ${leadsAway ? '' : "form-action 'self'; "}frame-ancestors 'none'; base-uri 'none'`;
