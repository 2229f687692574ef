import type { Page } from '#pages/page.ts';
import { accountPages } from './pages/account.ts';
import { signInPages } from './pages/sign-in.ts';

export const pages: readonly Page[] = [...signInPages, ...accountPages];
