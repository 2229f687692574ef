import { request } from 'node:http';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { COLLECTOR, envelope, eventEnvelope, eventsOf, makeSender, newEventId, type Sender } from './sending.ts';

const app = useApp();

const idsOf = async (projectId: number) => (await eventsOf(app(), projectId)).map(({ event_id }) => event_id);

const detailOf = async (answer: Response) => {
  const body: unknown = await answer.json();
  expect(body).toEqual({ detail: expect.any(String), causes: [] });
  expect(answer.headers.get('x-sentry-error')).toBe((body as { detail: string }).detail);
  return (body as { detail: string }).detail;
};

describe('the endpoint for envelopes', () => {
  it('answers with the event id, and digests an event once however often it is sent', async () => {
    const sender = await makeSender(app());
    const id = newEventId();
    for (let i = 0; i < 3; i++) {
      const answer = await sender.send(eventEnvelope({ level: 'warning' }, id));
      expect([answer.status, await answer.json()]).toEqual([200, { id }]);
      expect(answer.headers.get('content-type')).toBe('application/json');
      expect(answer.headers.get('content-length')).toBe(String(JSON.stringify({ id }).length));
    }
    expect(await eventsOf(app(), sender.projectId)).toMatchObject([{ event_id: id, level: 'warning' }]);
  });

  it('digests all of many reports that arrive together, though few of their groups queue the digest', async () => {
    const sender = await makeSender(app());
    const ids = Array.from({ length: 120 }, () => newEventId());
    const answers = await Promise.all(ids.map((id) => sender.send(eventEnvelope({}, id))));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect((await idsOf(sender.projectId)).toSorted()).toEqual(ids.toSorted());
  });

  it('takes the event id of the header first, then that of the event, with dashes too, or makes one', async () => {
    const { send, projectId } = await makeSender(app());
    const [a, b] = [newEventId(), newEventId()];
    const dashed = b.toUpperCase().replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    const idOf = async (body: string): Promise<string> => (await (await send(body)).json()).id;
    const made = [
      await idOf(envelope({ event_id: a }, [{ type: 'event' }, { event_id: b, message: 'a' }])),
      await idOf(envelope({}, [{ type: 'event' }, { event_id: dashed, message: 'b' }])),
      await idOf(envelope({}, [{ type: 'event' }, { message: 'c' }])),
    ];
    expect(made).toEqual([a, b, expect.stringMatching(/^[0-9a-f]{32}$/)]);
    expect((await idsOf(projectId)).toSorted()).toEqual(made.toSorted());
  });

  it('takes every way in which SDKs name the key', async () => {
    const { post, key, projectId } = await makeSender(app());
    const { public_key: k } = key;
    const path = `${COLLECTOR}/${projectId}/envelope`;
    const basic = `Basic ${Buffer.from(`${k}:`).toString('base64')}`;
    const ways: readonly [string, Record<string, string>][] = [
      [`${path}/?sentry_version=7&sentry_key=${k}&sentry_client=a%2F1`, {}],
      [`${path}?sentry_key=${k}`, {}],
      [path, { 'X-Sentry-Auth': `Sentry sentry_key=${k}, sentry_version=7, sentry_client=a/1` }],
      [`${path}/`, { 'X-Sentry-Auth': `SENTRY sentry_version=7,sentry_client=a/1,sentry_key=${k},sentry_secret=x` }],
      [path, { Authorization: `Sentry sentry_key=${k}` }],
      [path, { Authorization: basic }],
      [`${path}?sentry_key=${k}`, { 'X-Sentry-Auth': `Sentry sentry_key=${k}` }],
    ];
    const ids: string[] = [];
    for (const [url, headers] of ways) {
      const answer = await post(url, eventEnvelope(), headers);
      expect(answer.status).toBe(200);
      ids.push((await answer.json()).id);
    }
    const id = newEventId();
    const tunnelled = envelope({ event_id: id, dsn: key.sentry_dsn }, [{ type: 'event' }, { message: 'tunnelled' }]);
    expect((await post(path, tunnelled)).status).toBe(200);
    // The key is found before the rest is read, so a large body may come through a tunnel too.
    const large = newEventId();
    const attachment = 'x'.repeat(400_000);
    const packed = gzipSync(
      envelope(
        { event_id: large, dsn: key.sentry_dsn },
        [{ type: 'event' }, { message: 'large' }],
        [{ type: 'attachment' }, attachment],
      ),
      { level: 0 },
    );
    expect((await post(path, packed, { 'Content-Encoding': 'gzip' })).status).toBe(200);
    expect((await idsOf(projectId)).toSorted()).toEqual([...ids, id, large].toSorted());
  });

  it('refuses missing, wrong, foreign, contradictory and deleted keys with the same answer', async () => {
    const sender = await makeSender(app());
    const other = await makeSender(app());
    const { public_key: k } = sender.key;
    const url = (project: string | number, key: string) => `${COLLECTOR}/${project}/envelope/?sentry_key=${key}`;
    const id = sender.projectId;
    const answers = [
      await sender.post(`${COLLECTOR}/${id}/envelope/`, eventEnvelope()),
      await sender.post(`${COLLECTOR}/${id}/envelope/`, 'not an envelope'),
      await sender.post(`${COLLECTOR}/${id}/store/`, '{}'),
      await sender.post(url(id, 'glet_0'), eventEnvelope()),
      await sender.post(url(id, 'a-b'), eventEnvelope()),
      await sender.post(url(id, other.key.public_key), eventEnvelope()),
      await sender.post(url('x', k), eventEnvelope()),
      await sender.post(url(2 ** 60, k), eventEnvelope()),
      await sender.post(url(id, k), eventEnvelope(), { 'X-Sentry-Auth': 'Sentry sentry_key=other' }),
      await sender.post(`${COLLECTOR}/${id}/envelope/`, envelope({ dsn: other.key.sentry_dsn })),
    ];
    for (const answer of answers) {
      expect(answer.status).toBe(401);
      expect(answer.headers.get('access-control-allow-origin')).toBe('*');
      expect(await detailOf(answer)).toMatch(/^the client key is missing or unknown/);
    }
    expect((await sender.send(eventEnvelope())).status).toBe(200);
    const keys = `/projects/${id}/error_tracking/client_keys`;
    expect((await app().as(app().root).delete(`${keys}/${sender.key.id}`)).status).toBe(204);
    expect((await sender.send(eventEnvelope())).status).toBe(401);
    expect(await eventsOf(app(), id)).toHaveLength(1);
    expect(await eventsOf(app(), other.projectId)).toEqual([]);
  });

  it('refuses everything while the project takes no errors', async () => {
    const { send, projectId } = await makeSender(app());
    const client = app().as(app().root);
    const settings = `/projects/${projectId}/error_tracking/settings`;
    expect((await send(eventEnvelope())).status).toBe(200);
    await client.put(settings, { integrated: false });
    expect((await send(eventEnvelope())).status).toBe(401);
    await client.put(settings, { integrated: true });
    await until('the cached refusal is forgotten', async () => (await send(eventEnvelope())).status === 200);
  });

  it('takes errors of a project that is archived', async () => {
    const { send, projectId } = await makeSender(app());
    await app().as(app().root).post(`/projects/${projectId}/archive`);
    expect((await send(eventEnvelope())).status).toBe(200);
    expect(await eventsOf(app(), projectId)).toHaveLength(1);
  });

  it('counts feedback as a report, and shows it with its event', async () => {
    const { send, projectId } = await makeSender(app());
    const [event, feedback] = [newEventId(), newEventId()];
    const contexts = {
      feedback: { message: 'It hangs.', name: 'Ada', contact_email: 'ada@example.com', associated_event_id: event },
    };
    const answer = await send(
      envelope({ event_id: feedback }, [{ type: 'feedback' }, { event_id: feedback, contexts }]),
    );
    expect([answer.status, await answer.json()]).toEqual([200, { id: feedback }]);
    expect(await eventsOf(app(), projectId)).toEqual([]);
    const { pool } = app().hub.services;
    const counts = await pool.query('select events, others, failed from ingest_counts where project_id = $1', [
      projectId,
    ]);
    expect(counts.rows).toEqual([{ events: 0, others: 1, failed: 0 }]);
    const reports = await pool.query(
      `select replace(event_id::text, '-', '') as event_id, name, email, comments from error_user_reports where project_id = $1`,
      [projectId],
    );
    expect(reports.rows).toEqual([{ event_id: event, name: 'Ada', email: 'ada@example.com', comments: 'It hangs.' }]);
  });

  it('refuses an envelope whose DSN names another key', async () => {
    const sender = await makeSender(app());
    const other = await makeSender(app());
    const answer = await sender.send(envelope({ dsn: other.key.sentry_dsn }, [{ type: 'event' }, {}]));
    expect([answer.status, await detailOf(answer)]).toEqual([400, expect.stringContaining('DSN')]);
    const same = envelope({ dsn: sender.key.sentry_dsn }, [{ type: 'event' }, {}]);
    expect((await sender.send(same)).status).toBe(200);
  });

  it('unpacks every encoding, and takes any content type', async () => {
    const { send, projectId } = await makeSender(app());
    const packed = (pack: (body: Buffer) => Buffer) => pack(Buffer.from(eventEnvelope()));
    const bodies: readonly [string, Buffer][] = [
      ['gzip', packed(gzipSync)],
      ['x-gzip', packed(gzipSync)],
      ['deflate', packed(deflateSync)],
      ['deflate', packed(deflateRawSync)],
      ['br', packed(brotliCompressSync)],
      ['ZSTD', packed(zstdCompressSync)],
      ['identity', packed((body) => body)],
      ['', packed((body) => body)],
    ];
    for (const [encoding, body] of bodies) {
      const answer = await send(body, { 'Content-Encoding': encoding, 'Content-Type': 'no such/type; ;' });
      expect([encoding, answer.status]).toEqual([encoding, 200]);
    }
    expect(await eventsOf(app(), projectId)).toHaveLength(bodies.length);
    const unknown = await send(eventEnvelope(), { 'Content-Encoding': 'compress' });
    expect([unknown.status, await detailOf(unknown)]).toEqual([415, expect.stringContaining('gzip')]);
  });

  it('takes chunked bodies without a type, and large ones', async () => {
    const { key, projectId } = await makeSender(app());
    const post = (parts: readonly string[]) =>
      new Promise<number | undefined>((resolve, reject) => {
        const path = `${COLLECTOR}/${projectId}/envelope/?sentry_key=${key.public_key}`;
        const sent = request(`${app().url}${path}`, { method: 'POST' }, (answer) => {
          answer.resume().on('end', () => resolve(answer.statusCode));
        }).on('error', reject);
        for (const part of parts) sent.write(part);
        sent.end();
      });
    const attachment = 'x'.repeat(3_000_000);
    const whole = eventEnvelope();
    expect(await post([whole.slice(0, 20), whole.slice(20)])).toBe(200);
    const header = { type: 'attachment', length: attachment.length, filename: 'a.bin' };
    expect(await post([eventEnvelope(), `\n${JSON.stringify(header)}\n`, attachment, '\n'])).toBe(200);
    expect(await eventsOf(app(), projectId)).toHaveLength(2);
    const { rows } = await app().hub.services.pool.query(
      'select events, others, invalid from ingest_counts where project_id = $1',
      [projectId],
    );
    expect(rows.map(({ events }) => events).reduce((a, b) => a + b)).toBe(2);
  });

  it('answers 200 to envelopes with nothing in them or nothing that is used', async () => {
    const { send, projectId } = await makeSender(app());
    const bodies = [
      '{}',
      '{}\n',
      envelope({}, [{ type: 'transaction' }, {}], [{ type: 'no_such_type' }, 'x'], [{}, 'y']),
      envelope({}, [{ type: 'profile', length: 0 }, '']),
      envelope({ sent_at: 'never' }, [{ type: 'client_report' }, { discarded_events: [] }]),
    ];
    for (const body of bodies) {
      const answer = await send(body);
      expect([body, answer.status, await answer.json()]).toEqual([body, 200, {}]);
    }
    expect(await eventsOf(app(), projectId)).toEqual([]);
  });
});

describe('the endpoint for single events', () => {
  const store = ({ post, projectId, key }: Sender, body: string | Buffer, headers: Record<string, string> = {}) =>
    post(`${COLLECTOR}/${projectId}/store/`, body, {
      'X-Sentry-Auth': `Sentry sentry_version=7, sentry_key=${key.public_key}`,
      ...headers,
    });

  it('takes JSON, packed JSON, and base64 of zlib', async () => {
    const sender = await makeSender(app());
    const bodies = Array.from({ length: 4 }, () => JSON.stringify({ event_id: newEventId(), message: 'stored' }));
    const [plain = '', packed = '', base64 = '', odd = ''] = bodies;
    const strange = odd.replace('"stored"', '"stored", "extra": {"a": NaN, "b": [-Infinity, "NaN"]}');
    const answers = [
      await store(sender, plain),
      await store(sender, gzipSync(packed), { 'Content-Encoding': 'gzip' }),
      await store(sender, deflateSync(base64).toString('base64')),
      await store(sender, strange),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const ids = await Promise.all(answers.map(async (answer) => (await answer.json()).id));
    expect(ids).toEqual(bodies.map((body) => JSON.parse(body).event_id));
    // An event that is sent again counts once, also with numbers that JSON does not know.
    await store(sender, strange);
    expect((await idsOf(sender.projectId)).toSorted()).toEqual(ids.toSorted());
  });

  it('refuses bodies that are no events, and events that are too large', async () => {
    const sender = await makeSender(app());
    for (const body of ['', '[1]', 'null', '{"a":', 'eJw=', '{"a": nan}']) {
      const answer = await store(sender, body);
      expect([body, answer.status]).toEqual([body, 400]);
      const detail = await detailOf(answer);
      if (body === '[1]') expect(detail).toBe('the event is not an object');
    }
    const large = JSON.stringify({ message: 'x'.repeat(1_100_000) });
    for (const answer of [
      await store(sender, large),
      await store(sender, gzipSync(large), { 'Content-Encoding': 'gzip' }),
    ]) {
      expect([answer.status, await detailOf(answer)]).toEqual([413, expect.stringContaining('1048576')]);
    }
    expect(await eventsOf(app(), sender.projectId)).toEqual([]);
  });
});

describe('other requests to the collector', () => {
  it('answer preflights, and everything else with 404 that scripts may read', async () => {
    const path = `${app().url}${COLLECTOR}/1/envelope/`;
    const preflight = await fetch(path, { method: 'OPTIONS', headers: { Origin: 'http://app.example' } });
    expect([preflight.status, preflight.headers.get('access-control-allow-methods')]).toEqual([204, 'POST']);
    expect(preflight.headers.get('access-control-allow-headers')).toMatch(/x-sentry-auth.*content-encoding/);
    for (const [method, below] of [
      ['GET', '1/envelope/'],
      ['POST', '1/minidump'],
      ['POST', '1/security/?sentry_key=a'],
      ['POST', 'embed/error-page/'],
      ['PUT', '1/store/'],
    ]) {
      const answer = await fetch(`${app().url}${COLLECTOR}/${below}`, { method: method ?? '' });
      expect([below, answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([below, 404, '*']);
      await detailOf(answer);
    }
  });
});
