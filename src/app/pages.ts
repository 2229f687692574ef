import { pages as errorTracking } from '#domains/error-tracking/pages.ts';
import { pages as hub } from '#domains/hub/pages.ts';
import { pages as members } from '#domains/members/pages.ts';
import { applicationPages } from '#domains/oauth/pages/applications.ts';
import { authorizedPages } from '#domains/oauth/pages/authorized.ts';
import { consentPages } from '#domains/oauth/pages/consent.ts';
import { devicePages } from '#domains/oauth/pages/device.ts';
import { pages as saml } from '#domains/saml/pages.ts';
import { accountPages } from '#domains/sign-in/pages/account.ts';
import { accountDeletionPages } from '#domains/sign-in/pages/account-deletion.ts';
import { adminModePages } from '#domains/sign-in/pages/admin-mode.ts';
import { ldapPages } from '#domains/sign-in/pages/ldap.ts';
import { passwordResetPages } from '#domains/sign-in/pages/password-reset.ts';
import { signUpPages } from '#domains/sign-in/pages/sign-up.ts';
import { termsPages } from '#domains/sign-in/pages/terms.ts';
import { twoFactorPages } from '#domains/sign-in/pages/two-factor.ts';
import { signInPages } from '#domains/sign-in/pages.ts';
import { pages as tokens } from '#domains/tokens/pages.ts';
import { abuseReportPages } from '#domains/users/pages/abuse-reports.ts';
import { approvalPages } from '#domains/users/pages/approvals.ts';
import { pages as users } from '#domains/users/pages.ts';
import type { Page } from '#pages/page.ts';

/** Every page. */
export const pages: readonly Page[] = [
  ...users,
  ...abuseReportPages,
  ...approvalPages,
  ...signInPages,
  ...signUpPages,
  ...ldapPages,
  ...accountPages,
  ...accountDeletionPages,
  ...adminModePages,
  ...passwordResetPages,
  ...twoFactorPages,
  ...termsPages,
  ...saml,
  ...tokens,
  ...consentPages,
  ...devicePages,
  ...applicationPages,
  ...authorizedPages,
  ...members,
  ...errorTracking,
  ...hub,
];
