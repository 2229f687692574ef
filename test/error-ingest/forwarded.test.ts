import { request } from 'node:http';
import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { COLLECTOR, eventEnvelope, eventsOf, makeSender, newEventId } from './sending.ts';

const app = useApp({ env: { MILLRACE_TRUSTED_PROXIES: '127.0.0.1, ::1' } });

/** Sends raw header text, which `fetch` would refuse or change. */
const send = (url: string, address: string, body: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers: { 'x-forwarded-for': address } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    sent.on('error', reject).end(body);
  });

it('reports are stored for any address of the sender that a proxy sends', async () => {
  const { key, projectId } = await makeSender(app());
  const url = `${app().url}${COLLECTOR}/${projectId}/envelope/?sentry_key=${key.public_key}`;
  const addresses = ['203.0.113.7', '"quoted"', 'back\\slash"', '{a}', 'NULL', '198.51.100.1, "\\"', "it's"];
  const ids = addresses.map(() => newEventId());
  // Those that arrive together are stored by one statement.
  const answers = await Promise.all(
    addresses.map((address, n) => send(url, address, eventEnvelope({ user: { ip_address: '{{auto}}' } }, ids[n]))),
  );
  expect(answers).toEqual(addresses.map(() => 200));
  expect((await eventsOf(app(), projectId)).map(({ event_id }) => event_id).toSorted()).toEqual(ids.toSorted());
});
