import { beforeEach, describe, expect, it } from 'vitest';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { mailsTo } from '../support/mails.ts';

const app = useApp();
const PATH = '/-/abuse_reports/new';
const setAddress = (address: string) =>
  app().as(app().root).put('/application/settings', { abuse_notification_email: address });
/** Each test has an address of its own, so that it reads only its own mails. */
let tests = 0;
let address = '';
beforeEach(async () => {
  tests += 1;
  address = `abuse-${tests}@example.com`;
  await setAddress(address);
});

const gidOf = ({ id }: TestUser) => `gid://gitlab/User/${id}`;
const report = async (by: TestUser, input: Readonly<Record<string, unknown>>) => {
  const { data, errors } = await app()
    .as(by)
    .graphql('mutation ($input: AbuseReportCreateInput!) { abuseReportCreate(input: $input) { errors } }', { input });
  return data?.abuseReportCreate?.errors ?? errors?.map(({ message }) => message);
};

describe('a report of abuse', () => {
  it('goes to the address of the setting, and to none without it', async () => {
    const [reporter, other] = [await app().make.user(), await app().make.user()];
    const input = { userId: gidOf(other), message: 'Sends spam.\nEvery day.', url: 'https://hub.example/a?b=c' };
    await setAddress('');
    expect(await report(reporter, input)).toEqual(['This hub takes no reports of abuse']);
    await setAddress(address);
    await mutate(app().as(reporter), 'abuseReportCreate', input);
    const mails = await mailsTo(app(), address);
    expect(mails.map(({ subject }) => subject)).toEqual([`Abuse report about ${other.username}`]);
    const text = mails[0]?.text;
    expect(text).toContain(`${reporter.username} (user ${reporter.id}) reports ${other.username} (user ${other.id})`);
    expect(text).toContain('> Sends spam.\n> Every day.');
    expect(text).toContain(`${app().url}/${other.username}\n`);
    expect(text).toContain('https://hub.example/a?b=c');
    expect(await mailsTo(app(), `${other.username}@example.com`)).toEqual([]);
  });

  it('is refused with the problems of its fields, about unknown users, and from anonymous callers', async () => {
    const [reporter, other] = [await app().make.user(), await app().make.user()];
    expect(await report(reporter, { userId: gidOf(reporter), message: ' ', url: 'javascript:alert(1)' })).toEqual([
      'User must not be yourself',
      "Message can't be blank",
      'Url is not an http URL',
    ]);
    expect(
      await report(reporter, {
        userId: gidOf(other),
        message: 'x'.repeat(10_001),
        url: `https://hub.example/${'x'.repeat(2_000)}`,
      }),
    ).toEqual(['Message is too long (maximum is 10000 characters)', 'Url is too long (maximum is 2000 characters)']);
    expect(await report(reporter, { userId: 'gid://gitlab/User/999999999', message: 'Spam' })).toEqual([
      expect.stringContaining('does not exist'),
    ]);
    const query = `mutation { abuseReportCreate(input: { userId: "${gidOf(other)}", message: "Spam" }) { errors } }`;
    expect((await app().anonymous.graphql(query)).errors).toHaveLength(1);
    expect(await mailsTo(app(), address)).toEqual([]);
  });

  it('is refused to a user who has sent ten within an hour', async () => {
    const [reporter, other] = [await app().make.user(), await app().make.user()];
    const input = { userId: gidOf(other), message: 'Spam' };
    for (let n = 0; n < 10; n++) expect(await report(reporter, input)).toEqual([]);
    expect(await report(reporter, input)).toEqual(['Too many reports: try again later']);
    expect(await mailsTo(app(), address)).toHaveLength(10);
  });
});

describe('the page for reports of abuse', () => {
  it('sends a report, and shows the mistakes in it', async () => {
    const { visitor, user } = await signedIn(app());
    const other = await app().make.user();
    await visitor.get(`${PATH}?user=${other.username}`);
    expect(visitor.page.html).toContain(`value="${other.username}"`);
    const wrong = await visitor.submit(PATH, { user: 'nobody-has-this-name', message: 'Spam' });
    expect([wrong.status, wrong.text]).toEqual([422, expect.stringContaining('User name is unknown')]);
    const empty = await visitor.submit(PATH, { user: other.username, message: '', url: 'nowhere' });
    expect([empty.status, empty.text]).toEqual([
      422,
      expect.stringMatching(/What happened can't be blank.*Address of the place is not an http URL/),
    ]);
    expect(await visitor.submit(PATH, { user: `@${other.username}`, message: 'Spam <b>' })).toMatchObject({
      status: 303,
      location: '/',
    });
    expect((await visitor.follow()).text).toContain('Your report was sent.');
    const mails = await mailsTo(app(), address);
    expect(mails.map(({ text }) => text)).toEqual([
      expect.stringMatching(new RegExp(`^${user.username} .*> Spam <b>`, 's')),
    ]);
  });

  it('says so while the hub takes none, and asks anonymous visitors to sign in', async () => {
    expect(await new Visitor(app().url).get(PATH)).toMatchObject({
      status: 303,
      location: `/users/sign_in?return_to=${encodeURIComponent(PATH)}`,
    });
    await setAddress('');
    const { visitor } = await signedIn(app());
    const { status, text } = await visitor.get(PATH);
    expect([status, text]).toEqual([403, expect.stringContaining('This hub takes no reports')]);
  });
});
