import { button, errorSummary, type FormErrors, field, form, hidden, html, layout, notice } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { oneOf, text } from '#rest/params.ts';
import { applicationsByIds } from '../applications.ts';
import { type DeviceRequest, decideDevice, findUserCode, shownCode } from '../device.ts';
import { requestSummary } from './request-summary.ts';

const PATH = '/oauth/device';
const code = () => text({ max: 100 }).default('');

export const devicePages: readonly Page[] = [
  page({
    method: 'GET',
    path: PATH,
    auth: 'required',
    input: { user_code: code() },
    // The code is only filled in, so a link alone cannot submit it or authorise a device.
    run: (_ctx, { user_code }, visit) => showEntry(visit, user_code),
  }),
  page({
    method: 'POST',
    path: PATH,
    auth: 'required',
    input: { user_code: code(), decision: oneOf(['approve', 'deny']).optional() },
    run: async (ctx, { user_code, decision }, visit) => {
      if (user_code.trim() === '') return showEntry(visit, '', { user_code: ["can't be blank"] });
      if (decision === undefined) {
        const request = await findUserCode(ctx, user_code);
        return request ? showRequest(ctx, visit, request, user_code) : showEntry(visit, user_code, UNKNOWN);
      }
      const decided = await decideDevice(ctx, user_code, decision === 'approve');
      return decided ? showDecided(visit, decision === 'approve') : showEntry(visit, user_code, UNKNOWN);
    },
  }),
];

const UNKNOWN: FormErrors = { user_code: ['is unknown or has expired'] };

const showEntry = (visit: Visit, userCode: string, errors: FormErrors = {}): PageResponse => {
  const wrong = Object.keys(errors).length > 0;
  const body = html`!${errorSummary(errors, { user_code: 'Code' })}
<p>A device or a program asked you to come here, and shows you a code.</p>
!${form(
    visit,
    PATH,
    [
      field({
        name: 'user_code',
        label: 'Code',
        value: userCode,
        hint: 'Such as BCDF-GHJK. Dashes, spaces and case do not matter.',
        errors,
        autocomplete: 'off',
        required: true,
        autofocus: true,
        maxlength: 100,
      }),
      button('Continue'),
    ].join('\n'),
  )}`;
  return visit.show(layout({ title: 'Connect a device', visit, body }), { status: wrong ? 422 : 200 });
};

const showRequest = async (
  ctx: Context,
  visit: Visit,
  { application_id, scopes }: DeviceRequest,
  userCode: string,
): Promise<PageResponse> => {
  const application = (await applicationsByIds(ctx, [application_id])).get(application_id);
  if (!application) throw notFound('Application');
  const shown = shownCode(userCode);
  const who = await requestSummary(ctx, {
    visit,
    application,
    scopes,
    details: [['Code', html`<code class="code">${shown}</code>`]],
  });
  const buttons = [
    button('Authorize', { name: 'decision', value: 'approve' }),
    button('Deny', { kind: 'plain', name: 'decision', value: 'deny' }),
  ].join('\n');
  const body = html`!${notice('warning', 'Continue only if you have the device in front of you and it shows exactly this code. If somebody sent you the code or a link, deny the request.')}
!${who}
!${form(visit, PATH, html`!${hidden('user_code', shown)}<div class="actions">!${buttons}</div>`)}
<p class="hint">You can revoke access at any time under <a href="/-/user_settings/applications">Applications</a>.</p>`;
  return visit.show(layout({ title: `Authorize ${application.name}?`, visit, body }));
};

const showDecided = (visit: Visit, approved: boolean): PageResponse => {
  const body = approved
    ? html`!${notice('done', 'The device can now act for you.')}<p>Go back to the device. It continues by itself in a few seconds. You can close this page.</p>`
    : html`!${notice('done', 'The request was denied.')}<p>No access was granted. You can close this page.</p>`;
  return visit.show(layout({ title: approved ? 'Device connected' : 'Device denied', visit, body }));
};
