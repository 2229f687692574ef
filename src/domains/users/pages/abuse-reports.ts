import { formErrorsOf } from '#pages/form-errors.ts';
import { button, errorSummary, type FormErrors, field, form, html, layout, notice } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { text } from '#rest/params.ts';
import { MAX_MESSAGE, MAX_URL, reportAbuse, takesReports } from '../abuse-reports.ts';
import { findUserByUsername } from '../queries.ts';

const PATH = '/-/abuse_reports/new';
const LABELS = { user: 'User name', message: 'What happened', url: 'Address of the place' };
const input = { user: text().default(''), message: text().default(''), url: text().default('') };

type Typed = Readonly<Record<keyof typeof input, string>>;

export const abuseReportPages: readonly Page[] = [
  page({ method: 'GET', path: PATH, auth: 'required', input, run: (ctx, typed, visit) => show(ctx, visit, typed, {}) }),
  page({
    method: 'POST',
    path: PATH,
    auth: 'required',
    input,
    run: async (ctx, typed, visit) => {
      const user = await findUserByUsername(ctx, typed.user.trim().replace(/^@/, ''));
      if (!user) return show(ctx, visit, typed, { user: ['is unknown'] });
      try {
        await reportAbuse(ctx, { userId: user.id, message: typed.message, url: typed.url.trim() });
      } catch (error) {
        return show(ctx, visit, typed, formErrorsOf(error));
      }
      return visit.redirect('/', { notice: 'Your report was sent. Thank you.' });
    },
  }),
];

const show = async (ctx: Context, visit: Visit, typed: Typed, errors: FormErrors): Promise<PageResponse> => {
  const title = 'Report abuse';
  if (!(await takesReports(ctx))) {
    const body = notice('warning', 'This hub takes no reports. Ask its administrators.');
    return visit.show(layout({ title, visit, body }), { status: 403 });
  }
  const fields = html`!${field({ name: 'user', label: LABELS.user, value: typed.user, required: true, maxlength: 255, errors })}
!${field({ name: 'message', label: LABELS.message, value: typed.message, required: true, maxlength: MAX_MESSAGE, rows: 8, errors })}
!${field({ name: 'url', label: LABELS.url, type: 'url', value: typed.url, maxlength: MAX_URL, hint: 'If there is one.', errors })}
!${button('Send the report')}`;
  const body = html`<p>Tell the people who run this hub about a user who sends spam, attacks others or breaks the rules. They learn who you are, the user does not.</p>
!${errorSummary(errors, LABELS)}
!${form(visit, PATH, fields)}`;
  return visit.show(layout({ title, visit, body }), Object.keys(errors).length > 0 ? { status: 422 } : {});
};
