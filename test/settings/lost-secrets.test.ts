import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { loadTargets } from '#domains/hooks/delivery/targets.ts';
import { signingKey } from '#domains/oauth/signing-keys.ts';
import { replaceRecoveryCodes, verifySecondFactor } from '#domains/sign-in/two-factor.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner, queuePipeline } from '../support/runner/queue.ts';

// What a caller sees of values that were encrypted with a secret key that was replaced since.

const app = useApp();
const db = () => app().hub.services.db;

/** Makes the sealed values of a table unreadable, as those of another key are. */
const lose = async (table: string, column: string, where = sql`true`) => {
  const { numAffectedRows } =
    await sql`update ${sql.table(table)} set ${sql.ref(column)} = ${randomBytes(60)} where ${where}`.execute(db());
  expect(numAffectedRows).toBeGreaterThan(0n);
};

const scene = async () => {
  const made = await makeScene(app(), { initialize_with_readme: true });
  const { token } = await makeRunner(app(), { runner_type: 'project_type', project_id: made.project.id });
  return { ...made, protocol: new Protocol({ url: app().url, token }) };
};

describe('a CI variable whose key was lost', () => {
  it('is listed without its value, beside others, until it is set again', async () => {
    const { project, owner, path } = await scene();
    await owner.post(`${path}/variables`, { key: 'LOST', value: 'first' });
    await lose('ci_variables', 'sealed_value', sql`project_id = ${project.id}`);
    await owner.post(`${path}/variables`, { key: 'OTHER', value: 'kept' });
    const list = async () =>
      (await owner.get(`${path}/variables`)).body.map((each: { key: string; value: unknown }) => [
        each.key,
        each.value,
      ]);
    expect(await list()).toEqual([
      ['LOST', null],
      ['OTHER', 'kept'],
    ]);
    const { body } = await owner.get(path);
    const { data } = await owner.graphql(
      'query ($path: ID!) { project(fullPath: $path) { ciVariables { nodes { key value } } } }',
      { path: body.path_with_namespace },
    );
    expect(data.project.ciVariables.nodes).toContainEqual({ key: 'LOST', value: null });
    // Whether the value may be masked is not known.
    const masked = await owner.put(`${path}/variables/LOST`, { masked: true });
    expect([masked.status, masked.body.message]).toEqual([
      422,
      'A stored secret cannot be read, because it was encrypted with a secret key that was replaced. Set it again.',
    ]);
    expect((await owner.put(`${path}/variables/LOST`, { value: 'second' })).body.value).toBe('second');
    expect(await list()).toContainEqual(['LOST', 'second']);
    expect(
      (
        await app()
          .as(await app().make.user())
          .get(`${path}/variables`)
      ).status,
    ).not.toBe(200);
  });

  it('fails the jobs that would get it, with a reason', async () => {
    const { project, owner, path, protocol } = await scene();
    await owner.post(`${path}/variables`, { key: 'LOST', value: 'first' });
    await lose('ci_variables', 'sealed_value', sql`project_id = ${project.id}`);
    const failed = await queuePipeline(app(), { project_id: project.id }, [{ name: 'a' }]);
    expect(await protocol.request()).toBeNull();
    expect((await owner.get(`${path}/jobs/${failed.jobs[0]}`)).body).toMatchObject({
      status: 'failed',
      failure_reason: 'data_integrity_failure',
    });
    await owner.put(`${path}/variables/LOST`, { value: 'second' });
    await queuePipeline(app(), { project_id: project.id }, [{ name: 'b' }]);
    protocol.lastUpdate = '';
    expect((await protocol.request())?.variables.find(({ key }) => key === 'LOST')?.value).toBe('second');
  });
});

describe('another value whose key was lost', () => {
  it('is null or missing in records, which are shown otherwise', async () => {
    const { project, owner, path } = await scene();
    const at = `${path}/triggers`;
    await owner.post(at, { description: 'deploy' });
    await lose('pipeline_triggers', 'sealed_token', sql`project_id = ${project.id}`);
    expect((await owner.get(at)).body).toMatchObject([{ description: 'deploy', token: null }]);
    const keys = `${path}/error_tracking/client_keys`;
    await owner.post(keys);
    await lose('error_tracking_client_keys', 'sealed_key', sql`project_id = ${project.id}`);
    expect((await owner.get(keys)).body).toMatchObject([{ public_key: null, sentry_dsn: null }]);
    expect((await owner.get(path)).body.runners_token).toMatch(/^GR1348941/);
    await lose('projects', 'runners_token', sql`id = ${project.id}`);
    const { status, body } = await owner.get(path);
    expect([status, body.id, body.runners_token]).toEqual([200, project.id, undefined]);
  });

  it('is null in schedules and pipelines, whose jobs fail', async () => {
    const { project, people, owner, path, protocol } = await scene();
    const given = await queuePipeline(app(), { project_id: project.id, user_id: people.owner.id }, [{ name: 'a' }]);
    await db()
      .insertInto('pipeline_variables')
      .values({
        pipeline_id: given.id,
        key: 'LOST',
        sealed_value: randomBytes(60),
        variable_type: 'env_var',
        raw: false,
      })
      .execute();
    expect((await owner.get(`${path}/pipelines/${given.id}/variables`)).body).toMatchObject([
      { key: 'LOST', value: null },
    ]);
    expect(await protocol.request()).toBeNull();
    expect((await owner.get(`${path}/jobs/${given.jobs[0]}`)).body.failure_reason).toBe('data_integrity_failure');
    const schedule = await owner.post(`${path}/pipeline_schedules`, {
      description: 'nightly',
      ref: 'refs/heads/main',
      cron: '0 1 * * *',
    });
    expect(schedule.status).toBe(201);
    const at = `${path}/pipeline_schedules/${schedule.body.id}`;
    await owner.post(`${at}/variables`, { key: 'LOST', value: 'first' });
    await lose('pipeline_schedule_variables', 'sealed_value', sql`schedule_id = ${schedule.body.id}`);
    expect((await owner.get(at)).body.variables).toMatchObject([{ key: 'LOST', value: null }]);
    expect((await owner.put(`${at}/variables/LOST`, { value: 'second' })).body.value).toBe('second');
  });

  it('leaves a second factor its recovery codes', async () => {
    const { id } = await app().make.user();
    await db()
      .updateTable('users')
      .set({ two_factor_enabled: true, otp_secret: randomBytes(60) })
      .where('id', '=', id)
      .execute();
    const proofs = await app()
      .context()
      .transaction(async (tx) => {
        const [code = ''] = await replaceRecoveryCodes(tx, id);
        return [await verifySecondFactor(tx, id, '123456'), await verifySecondFactor(tx, id, code)];
      });
    expect(proofs).toEqual([false, true]);
  });

  it('is replaced if it signs id tokens, and its public key stays for a while', async () => {
    const kids = async () =>
      (await app().anonymous.get(`${app().url}/oauth/discovery/keys`)).body.keys.map(({ kid }: { kid: string }) => kid);
    const before = await signingKey(app().context());
    await lose('oauth_signing_keys', 'private_jwk');
    // A process that starts with another key has opened none.
    const services = { ...app().hub.services };
    const after = await signingKey({ ...app().context(), services });
    expect(after.kid).not.toBe(before.kid);
    expect((await signingKey(app().context())).kid).toBe(after.kid);
    expect(await kids()).toEqual([after.kid, before.kid]);
  });
});

describe('a webhook whose key was lost', () => {
  it('is listed, and takes its secrets again', async () => {
    const { project, owner, path } = await scene();
    const at = `${path}/hooks`;
    const { body: hook } = await owner.post(at, {
      url: 'https://ada:secret@hooks.example.com/{part}',
      token: 'one',
      custom_headers: [{ key: 'X-Key', value: 'first' }],
      url_variables: [{ key: 'part', value: 'first' }],
    });
    const ofProject = sql`project_id = ${project.id}`;
    await lose('webhooks', 'token', ofProject);
    await lose('webhooks', 'sealed_url', ofProject);
    await lose('webhook_values', 'value', sql`webhook_id = ${hook.id}`);
    expect((await owner.get(at)).body).toMatchObject([{ id: hook.id, url: hook.url }]);
    expect(await owner.put(`${at}/${hook.id}`, { url: hook.url, token: 'two' })).toMatchObject({
      status: 422,
      body: { message: expect.stringMatching(/secret key that was replaced. Set it again\.$/) },
    });
    const again = await owner.put(`${at}/${hook.id}`, {
      url: 'https://ada:new@hooks.example.com/{part}',
      token: 'two',
      custom_headers: [{ key: 'X-Key', value: 'second' }],
      url_variables: [{ key: 'part', value: 'second' }],
    });
    expect([again.status, again.body.custom_headers, again.body.url_variables]).toEqual([
      200,
      [{ key: 'X-Key' }],
      [{ key: 'part' }],
    ]);
    const targets = await loadTargets(app().hub.services, db(), [hook.id]);
    expect(targets.get(hook.id)).toMatchObject({
      url: 'https://ada:new@hooks.example.com/second',
      token: 'two',
      headers: [{ key: 'X-Key', value: 'second' }],
    });
  });
});
