import { button, errorSummary, type FormErrors, form, html, layout, notice } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { oneOf } from '#rest/params.ts';
import {
  type Demand,
  disableTwoFactor,
  enableTwoFactor,
  getSecondFactor,
  regenerateRecoveryCodes,
  secondFactorDemand,
} from '../enrolment.ts';
import { PROOF_LABELS, proof, proofFields } from './password-fields.ts';
import { answer, type Refusal, refusalOf } from './refusals.ts';

export const TWO_FACTOR = '/-/user_settings/two_factor';

export const twoFactorPages: readonly Page[] = [
  page({
    method: 'GET',
    path: TWO_FACTOR,
    auth: 'required',
    run: (ctx, _input, visit) => showTwoFactor(ctx, visit, { errors: {} }),
  }),
  page({
    method: 'POST',
    path: TWO_FACTOR,
    auth: 'required',
    input: { ...proof, change: oneOf(['enable', 'regenerate', 'disable']) },
    run: async (ctx, { current_password: password, code, change }, visit) => {
      try {
        if (change === 'disable') {
          await disableTwoFactor(ctx, { password, code });
          return visit.redirect(TWO_FACTOR, { notice: 'Two-factor authentication is disabled.' });
        }
        const run = change === 'enable' ? enableTwoFactor : regenerateRecoveryCodes;
        return showRecoveryCodes(visit, await run(ctx, { password, code }));
      } catch (error) {
        return showTwoFactor(ctx, visit, refusalOf(error));
      }
    },
  }),
];

const showTwoFactor = async (
  ctx: Context,
  visit: Visit,
  { errors, status, headers }: Refusal,
): Promise<PageResponse> => {
  const factor = await getSecondFactor(ctx);
  const body = factor.enabled
    ? inForce(visit, factor.recoveryCodesLeft, errors)
    : enrolment(visit, {
        secret: factor.secret,
        picture: await pictureOf(factor.uri),
        uri: factor.uri,
        demand: await secondFactorDemand(ctx),
        errors,
      });
  return visit.show(layout({ title: 'Two-factor authentication', visit, body }), answer(status, headers));
};

interface Enrolment {
  readonly secret: string;
  readonly uri: string;
  /** A data URI. */
  readonly picture: string;
  readonly demand: Demand | null;
  readonly errors: FormErrors;
}

const enrolment = (
  visit: Visit,
  { secret, uri, picture, demand, errors }: Enrolment,
): string => html`!${demand === null ? '' : notice('warning', demandInWords(demand))}
!${errorSummary(errors, PROOF_LABELS)}
<p>With a second factor, sign-in requires a code from an authenticator app in addition to your password.</p>
<ol>
<li>Scan the QR code with your app, <a href="${uri}">open it on this device</a>, or type the key.</li>
<li>Type the code that the app shows.</li>
</ol>
<p><img src="${picture}" alt="QR code of the key below" class="qr" width="225" height="225"></p>
<p>Key: <code id="otp-secret">${secret.replace(/(.{4})(?=.)/g, '$1 ')}</code></p>
!${form(
  visit,
  TWO_FACTOR,
  html`!${proofFields({ hint: 'Six digits from your authenticator.', errors })}
!${button('Enable', { name: 'change', value: 'enable' })}`,
)}`;

const demandInWords = ({ graceUntil }: Demand): string =>
  graceUntil === null
    ? 'This hub requires a second factor. Enable it to continue.'
    : `This hub requires a second factor. Enable it before ${graceUntil.toISOString().slice(0, 16).replace('T', ' ')} UTC.`;

const inForce = (visit: Visit, left: number, errors: FormErrors): string => html`!${errorSummary(errors, PROOF_LABELS)}
<p>Two-factor authentication is enabled. Sign-in requires a code from your authenticator.</p>
<p>!${html`${left === 1 ? 'One recovery code is' : `${left} recovery codes are`} left.`} Each one signs you in once when you do not have your authenticator.</p>
<h2>Change it</h2>
!${form(
  visit,
  TWO_FACTOR,
  html`!${proofFields({ hint: 'Six digits from your authenticator, or a recovery code.', errors })}
!${button('Create new recovery codes', { kind: 'plain', name: 'change', value: 'regenerate' })}
!${button('Disable', { kind: 'danger', name: 'change', value: 'disable' })}`,
)}`;

const showRecoveryCodes = (visit: Visit, codes: readonly string[]): PageResponse => {
  const body = html`!${notice('done', 'Two-factor authentication is enabled.')}
<p>Keep these recovery codes in a safe place. Each one signs you in once when you do not have your authenticator. They are shown only once. Earlier codes no longer work.</p>
<ul aria-label="Recovery codes">
!${codes.map((code) => html`<li><code>${code}</code></li>`).join('\n')}
</ul>
<p><a href="/">I have saved them: continue</a></p>`;
  return visit.show(layout({ title: 'Recovery codes', visit, body }));
};

/** Returns the QR code of the address as a data URL. */
const pictureOf = async (uri: string): Promise<string> => {
  const { toDataURL } = await import('qrcode');
  return toDataURL(uri, { errorCorrectionLevel: 'M', margin: 4, scale: 5 });
};
