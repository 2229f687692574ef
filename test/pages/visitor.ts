import type { TestApp } from '../support/app.ts';
import { PASSWORD } from '../support/app.ts';

export interface ShownPage {
  readonly status: number;
  readonly headers: Headers;
  /** The `Location` header of a redirect. */
  readonly location: string | null;
  readonly html: string;
  /** The text of the document, without tags and with entities decoded. */
  readonly text: string;
}

interface Cookie {
  readonly value: string;
  /** The attributes as sent, in lower case. */
  readonly attributes: readonly string[];
}

/** An array sends several fields of the same name. */
type Fields = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A browser without scripts: keeps cookies and submits forms with the hidden fields of the current page. */
export class Visitor {
  readonly cookies = new Map<string, Cookie>();
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  #page: ShownPage | null = null;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.#url = url;
    this.#headers = headers;
  }

  /** The page that was shown last. */
  get page(): ShownPage {
    if (!this.#page) throw new Error('no page has been shown yet');
    return this.#page;
  }

  get session(): string | undefined {
    return [...this.cookies].find(([name]) => name.endsWith('millrace_session'))?.[1].value;
  }

  get cookieHeader(): string {
    return [...this.cookies].map(([name, { value }]) => `${name}=${value}`).join('; ');
  }

  /** Requests a page. Does not follow redirects; see `follow`. */
  async get(path: string): Promise<ShownPage> {
    return this.request('GET', path);
  }

  /**
   * Posts fields with the CSRF token of the current page, unless `fields` has one, as a form with this action would.
   */
  post(path: string, fields: Fields = {}): Promise<ShownPage> {
    const body = new URLSearchParams();
    const token = 'authenticity_token' in fields ? undefined : this.csrfToken;
    if (token !== undefined) body.append('authenticity_token', token);
    for (const [name, value] of Object.entries(fields)) {
      for (const each of typeof value === 'string' ? [value] : (value ?? [])) body.append(name, each);
    }
    return this.request('POST', path, body);
  }

  /** Submits the form of the current page with this `action`, including its hidden fields. */
  submit(action: string, fields: Fields = {}): Promise<ShownPage> {
    const form = new RegExp(`<form[^>]*action="${quoted(action)}"[^>]*>(.*?)</form>`, 's').exec(this.page.html)?.[1];
    if (form === undefined) throw new Error(`the page shows no form ${action}: ${this.page.text}`);
    const hidden: Record<string, string> = {};
    for (const [, name = '', value = ''] of form.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)) {
      hidden[decoded(name)] = decoded(value);
    }
    return this.post(action, { ...hidden, ...fields });
  }

  async follow(): Promise<ShownPage> {
    const { location } = this.page;
    if (location === null) throw new Error(`this leads nowhere: ${this.page.text}`);
    return this.get(location);
  }

  get csrfToken(): string | undefined {
    const token = /name="authenticity_token" value="([^"]*)"/.exec(this.#page?.html ?? '')?.[1];
    return token === undefined ? undefined : decoded(token);
  }

  async request(method: string, path: string, body?: URLSearchParams): Promise<ShownPage> {
    const response = await fetch(this.#url + path, {
      method,
      redirect: 'manual',
      headers: { ...this.#headers, ...(this.cookies.size > 0 ? { cookie: this.cookieHeader } : {}) },
      ...(body ? { body } : {}),
    });
    for (const line of response.headers.getSetCookie()) this.#keep(line);
    const html = await response.text();
    // Templates do not resolve escapes, so a line break written as one would be shown.
    if (html.includes('\\n')) throw new Error(`${method} ${path} shows an escape: ${html}`);
    this.#page = {
      status: response.status,
      headers: response.headers,
      location: response.headers.get('location'),
      html,
      text: decoded(html.replace(/<[^>]*>/g, ' ')).replace(/\s+/g, ' '),
    };
    return this.#page;
  }

  /** Signs in through the sign-in page and returns the answer. */
  async signIn(login: string, password: string = PASSWORD): Promise<ShownPage> {
    await this.get('/users/sign_in');
    return this.submit('/users/sign_in', { login, password });
  }

  #keep(line: string): void {
    const [pair = '', ...attributes] = line.split('; ');
    const equals = pair.indexOf('=');
    const name = pair.slice(0, equals);
    const value = pair.slice(equals + 1);
    if (value === '') this.cookies.delete(name);
    else this.cookies.set(name, { value, attributes: attributes.map((each) => each.toLowerCase()) });
  }
}

/** The digest of `PASSWORD`, shared by all users of these tests because hashing is expensive. */
let digest: Promise<string> | null = null;

/** Creates a user who can sign in with `PASSWORD`. */
export const makePerson: (
  app: TestApp,
  attributes?: Parameters<TestApp['make']['user']>[0],
) => ReturnType<TestApp['make']['user']> = async (app, attributes = {}) => {
  digest ??= import('#domains/users/password.ts').then(({ hashPassword }) => hashPassword(PASSWORD));
  return app.make.user({ password_hash: await digest, ...attributes });
};

/** Creates a user and returns a visitor who has signed in as that user. */
export const signedIn = async (
  app: TestApp,
  attributes?: Parameters<TestApp['make']['user']>[0],
): Promise<{ readonly visitor: Visitor; readonly user: Awaited<ReturnType<typeof makePerson>> }> => {
  const user = await makePerson(app, attributes);
  const visitor = new Visitor(app.url);
  const { status, text } = await visitor.signIn(user.username);
  if (status !== 303) throw new Error(`could not sign in: ${text}`);
  return { visitor, user };
};

const quoted = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

const decoded = (text: string): string => text.replace(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code)));
