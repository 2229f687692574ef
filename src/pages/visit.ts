import type { Context } from '#platform/context.ts';
import { readCookie, sessionCookieName } from '#platform/cookies.ts';
import { csrfToken } from '#platform/csrf.ts';
import { decrypt, encrypt, randomToken } from '#platform/secrets.ts';
import type { PageResponse } from './page.ts';

export interface ShowOptions {
  /** 200 by default. */
  readonly status?: number;
  /**
   * Whether a form of this page is answered by leading to another host. Browsers hold the whole chain of redirects that
   * follows a form to `form-action`, and where that host leads on to nobody here can know: the page goes without it.
   */
  readonly leadsAway?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

interface CookieOptions {
  /** Seconds; without it the cookie goes with the browser. */
  readonly maxAge?: number;
}

const NOTICE = 'millrace_notice';
const NOTICE_SECONDS = 60;
const SESSION_VALUE_LENGTH = 43;

/** A value for the session cookie of a visitor: 258 random bits, of which no session is. */
const newSessionValue = (): string => randomToken(SESSION_VALUE_LENGTH);

/** One request for a page: who it comes from, and the answer in the making. */
export class Visit {
  /** The session's row; null for visitors who have not signed in. */
  readonly session: { readonly id: number } | null;
  /** User name of whoever is signed in. */
  readonly username: string | null;
  /** Path and query, as sent. */
  readonly url: string;
  /** What the page before left to be said, once. */
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
   * The hidden field `authenticity_token` of every form. Visitors get a cookie that stands for nobody to bind it to, so
   * that nobody can be made to sign in as somebody else.
   */
  get csrfToken(): string {
    if (this.#value === null) this.setSessionCookie(newSessionValue());
    return csrfToken(this.#ctx.services.secretKey, this.#value ?? '');
  }

  /** The session cookie as sent: what CSRF tokens are held against. */
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

  /** What an earlier answer sealed into a cookie; null when there is none, or it was not sealed here. */
  readSealed(name: string): string | null {
    const sent = readCookie({ cookie: this.#cookieHeader }, this.#cookieName(name));
    if (sent === null || sent.length > 4_000) return null;
    try {
      return decrypt(this.#ctx.services.secretKey, Buffer.from(sent, 'base64url'), name);
    } catch {
      return null;
    }
  }

  /** Keeps `text` with the browser, unreadable to it. */
  seal(name: string, text: string, maxAge: number): void {
    const sealed = encrypt(this.#ctx.services.secretKey, text, name).toString('base64url');
    this.#setCookie(this.#cookieName(name), sealed, { maxAge });
  }

  /** Takes back what was sealed, where the browser has it. */
  forget(name: string): void {
    const cookie = this.#cookieName(name);
    if (this.#cookieHeader?.includes(`${cookie}=`)) this.#setCookie(cookie, '', { maxAge: 0 });
  }

  /** Leads on, by GET, to a path of the hub or (consent) to an application. `notice` is said on the next page. */
  redirect(location: string, { notice }: { readonly notice?: string } = {}): PageResponse {
    if (notice !== undefined) this.seal(NOTICE, notice, NOTICE_SECONDS);
    return { status: 303, headers: { Location: location }, body: '' };
  }

  /** Answers a whole document, of `layout`. */
  show(html: string, { status = 200, leadsAway = false, headers = {} }: ShowOptions = {}): PageResponse {
    if (this.notice !== null) this.forget(NOTICE);
    return {
      status,
      headers: {
        ...headers,
        'Content-Type': 'text/html; charset=utf-8',
        'Content-Security-Policy': policy(leadsAway),
      },
      body: html,
    };
  }

  /** The `Set-Cookie` lines of the answer. */
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

const policy = (leadsAway: boolean): string =>
  `default-src 'none'; style-src 'self'; img-src 'self' data:; ${leadsAway ? '' : "form-action 'self'; "}frame-ancestors 'none'; base-uri 'none'`;
