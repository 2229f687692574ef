import { pages as members } from '#domains/members/pages.ts';
import { pages as oauth } from '#domains/oauth/pages.ts';
import { pages as saml } from '#domains/saml/pages.ts';
import { pages as signIn } from '#domains/sign-in/pages.ts';
import { pages as tokens } from '#domains/tokens/pages.ts';
import { pages as users } from '#domains/users/pages.ts';
import type { Page } from '#pages/page.ts';

/** Every page, a line per domain. */
export const pages: readonly Page[] = [...users, ...signIn, ...saml, ...tokens, ...oauth, ...members];
