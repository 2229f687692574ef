import { button, errorSummary, type FormErrors, field, form, hidden, html, layout } from '#pages/html.ts';
import { localPath } from '#pages/local-path.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { text } from '#rest/params.ts';
import { signInByLdap } from '../ldap.ts';
import { lead } from '../pages.ts';
import { answer, refusalOf } from './refusals.ts';
import { leadsAway } from './return-to.ts';

const LABELS = { username: 'User name', password: 'Password' };
const pathOf = (provider: string): string => `/users/auth/ldap/${provider}`;

const serverOf = ({ services }: Context, provider: string) => {
  const server = services.config.ldapServers.find(({ name }) => name === provider);
  if (!server) throw notFound();
  return server;
};

/** The page that signs in through a directory. */
export const ldapPages: readonly Page[] = [
  page({
    method: 'GET',
    path: '/users/auth/ldap/:provider',
    auth: 'optional',
    input: { provider: text(), return_to: text().optional() },
    run: (ctx, { provider, return_to: returnTo }, visit) => showLdap(ctx, visit, { provider, returnTo }),
  }),
  page({
    method: 'POST',
    path: '/users/auth/ldap/:provider',
    auth: 'optional',
    input: {
      provider: text(),
      username: text().default(''),
      password: text().default(''),
      return_to: text().optional(),
    },
    run: async (ctx, { provider, username, password, return_to: returnTo }, visit) => {
      try {
        return lead(visit, await signInByLdap(ctx, provider, { login: username.trim(), password }), returnTo);
      } catch (error) {
        const refusal = refusalOf(error, { password: ['Invalid user name or password.'] });
        return showLdap(ctx, visit, { provider, username, returnTo, ...refusal });
      }
    },
  }),
];

interface LdapForm {
  readonly provider: string;
  readonly username?: string;
  readonly returnTo: string | undefined;
  readonly errors?: FormErrors;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

const showLdap = (
  ctx: Context,
  visit: Visit,
  { provider, username = '', returnTo, errors = {}, status, headers }: LdapForm,
): PageResponse => {
  const { label, name } = serverOf(ctx, provider);
  const target = localPath(returnTo);
  const fields = html`!${target === null ? '' : hidden('return_to', target)}
!${field({ name: 'username', label: LABELS.username, value: username, autocomplete: 'username', required: true, autofocus: username === '', errors })}
!${field({ name: 'password', label: LABELS.password, type: 'password', autocomplete: 'current-password', required: true, autofocus: username !== '', errors })}
!${button('Sign in')}`;
  const body = html`!${errorSummary(errors, LABELS)}
!${form(visit, pathOf(name), fields)}
<p class="aside"><a href="/users/sign_in">Sign in another way</a></p>`;
  const page = layout({ title: `Sign in with ${label}`, visit, body });
  return visit.show(page, { ...answer(status, headers), leadsAway: leadsAway(returnTo) });
};
