import { z } from 'zod';
import { flag, setting, whole, words } from './define.ts';
import { emailAddress, httpUrl } from './values.ts';

/** The instance as a whole. */
export const instance = {
  home_page_url: setting(
    httpUrl.default(''),
    'The page that anonymous visitors of the start page are sent to. Empty means the sign-in page.',
  ),
  security_txt_content: words(
    2_048,
    'Content of `/.well-known/security.txt`. If it is empty, that page does not exist.',
  ),
  abuse_notification_email: setting(
    emailAddress.default(''),
    'Address that gets the reports of users about abuse, from `/-/abuse_reports/new` and `abuseReportCreate`. Empty means that the hub takes none.',
    { deprecatedNames: ['admin_notification_email'] },
  ),
  event_retention_days: whole(
    1,
    3_650,
    30,
    'Own setting: how long events are kept for subscribers that resume with a cursor.',
  ),
  api_v5_preview_enabled: flag(
    true,
    'Own setting: whether the preview of version 5 of the REST API is served at `/api/v5`.',
  ),
  api_v4_sunset_on: setting(
    z.iso.date().nullable().default(null),
    'Own setting: the day after which version 4 of the REST API loses what is deprecated. Sent as `Sunset` with every use of it. It removes nothing itself. Null means that there is no such day yet.',
  ),
  graphiql_enabled: flag(true, 'Own setting: whether the GraphQL explorer is served.'),
  silent_mode_enabled: flag(false, 'Whether nothing is sent out: no webhooks, mails or export uploads.'),
};
