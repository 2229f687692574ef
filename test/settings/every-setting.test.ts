import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSchema } from 'graphql';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { settingsNaming } from '#domains/settings/named-records.ts';
import { factsOf } from '#domains/settings/registry/define.ts';
import { aliases, type SettingName, secretNames, settingNames, settingsSchema } from '#domains/settings/registry.ts';
import { SECRET_MASK } from '#domains/settings/secrets.ts';
import { useApp } from '../support/app.ts';
import { BAD, BOUNDS, CHOICES_ONLY, DEFAULTS, GOOD, REQUIRES } from './setting-values.ts';

// Every setting over REST and GraphQL: default, good values, bounds, wrong types and conditions. Numbers, switches and
// choices are derived from the registry. A setting of another type needs a row in `GOOD` and in `BAD` of
// setting-values.ts.

const app = useApp();
const admin = () => app().as(app().root);
const PATH = '/application/settings';

type Values = Record<string, unknown>;

/** Switches that would lock the administrator of the test out. Their own tests turn them on. */
const LEFT_OFF = [
  'admin_mode',
  'disable_personal_access_tokens',
  'enforce_terms',
  'external_authorization_service_enabled',
  'unique_ips_limit_enabled',
];
const isLeftOff = (name: string) => LEFT_OFF.includes(name) || /^throttle_/.test(name);

const typeOf = (name: SettingName): z.core.$ZodType => {
  const inner = settingsSchema.shape[name].def.innerType;
  return inner instanceof z.ZodNullable ? inner.def.innerType : inner;
};
const isNullable = (name: SettingName): boolean => settingsSchema.shape[name].def.innerType instanceof z.ZodNullable;
const integers = settingNames.filter((name) => {
  const type = typeOf(name);
  return type instanceof z.ZodNumber && type.format === 'safeint';
});
const boundsOf = (name: SettingName): readonly [number, number] => {
  const type = typeOf(name);
  if (!(type instanceof z.ZodNumber) || type.minValue === null || type.maxValue === null) throw new Error(name);
  return [type.minValue, type.maxValue];
};
/** Settings that hold the id of a record, with two of those that exist. */
const named = { group: settingsNaming('group'), project: settingsNaming('project') };
const existing: Record<string, readonly [number, number]> = {};
const ABOVE = new Set(settingNames.filter((name) => factsOf(settingsSchema.shape[name]).above !== undefined));
const isSecret = (name: string) => secretNames.some((secret) => secret === name);

/** Returns two good values. */
const good = (name: SettingName): readonly [unknown, unknown] => {
  const row = existing[name] ?? GOOD[name];
  if (row) return row;
  const type = typeOf(name);
  const usual: unknown = settingsSchema.shape[name].parse(undefined);
  if (type instanceof z.ZodBoolean) return isLeftOff(name) ? [false, false] : [!usual, usual];
  if (type instanceof z.ZodNumber) return boundsOf(name);
  if (type instanceof z.ZodEnum) return [type.options.at(-1), type.options.at(0)];
  throw new Error(`${name} needs a row in GOOD`);
};

/** A value of a wrong type, for parameters of REST. */
const wrong = (name: SettingName): unknown => {
  const type = typeOf(name);
  if (type instanceof z.ZodBoolean) return 'perhaps';
  if (type instanceof z.ZodNumber || type instanceof z.ZodUnion) return 'many';
  if (type instanceof z.ZodArray) return [{ nested: true }];
  if (type instanceof z.ZodObject || type instanceof z.ZodRecord) return 'flat';
  return { nested: true };
};

const all = (at: 0 | 1): Values => Object.fromEntries(settingNames.map((name) => [name, good(name)[at]]));
/** The values that are shown after these were written. */
const shown = (values: Values): Values =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, isSecret(name) ? SECRET_MASK : value]));
/** REST shows a decimal number as text, because clients with static types read it from one. */
const decimalsAsText = ({ polling_interval_multiplier: multiplier, ...others }: Values): Values => ({
  ...others,
  ...(multiplier === undefined ? {} : { polling_interval_multiplier: Number(multiplier).toFixed(1) }),
});
const shownByRest = (values: Values) => decimalsAsText(shown(values));
const camelCase = (name: string) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

const read = async (): Promise<Values> => (await admin().get(PATH)).body;
const chunks = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, at) => items.slice(at * size, (at + 1) * size));

/** Expects that the request is refused and changes nothing. Returns the body. */
const refused = async (values: Values) => {
  const before = await read();
  const { status, body } = await admin().put(PATH, values);
  expect([status, body]).toEqual([400, expect.anything()]);
  expect(await read()).toEqual(before);
  return body;
};

beforeAll(async () => {
  const { make } = app();
  const [groups, projects] = [
    [await make.group(), await make.group()] as const,
    [await make.project(), await make.project()] as const,
  ];
  for (const name of named.group) existing[name] = [groups[0].id, groups[1].id];
  for (const name of named.project) existing[name] = [projects[0].id, projects[1].id];
});

beforeEach(async () => {
  const { db } = app().hub.services;
  await db.updateTable('application_settings').set({ attributes: '{}' }).execute();
  await admin().put(PATH, { max_export_size: 0 });
});

describe('every setting', () => {
  it('has its default, and the bounds of the specification', async () => {
    expect(await read()).toMatchObject(DEFAULTS);
    expect(await read()).toMatchObject(decimalsAsText(settingsSchema.parse({})));
    for (const [name, [min, max]] of Object.entries(BOUNDS)) {
      const [least, most] = boundsOf(settingNames.find((each) => each === name) ?? 'max_export_size');
      expect([name, min ?? least, max ?? most]).toEqual([name, least, most]);
    }
  });

  it('takes good values as JSON, form, query and GraphQL, and shows them on both sides', async () => {
    const first = all(0);
    expect(await admin().put(PATH, first)).toMatchObject({ status: 200, body: shownByRest(first) });
    const second = all(1);
    expect(await admin().put(PATH, new URLSearchParams(pairs(second)))).toMatchObject({
      status: 200,
      body: shownByRest(second),
    });
    for (const part of chunks(pairs(first), 60)) {
      expect((await admin().put(`${PATH}?${new URLSearchParams(part)}`)).status).toBe(200);
    }
    expect(await read()).toMatchObject(shownByRest(first));
    const mutation = `mutation ($i: ApplicationSettingsUpdateInput!) { applicationSettingsUpdate(input: $i) { errors } }`;
    const input = Object.fromEntries(Object.entries(second).map(([name, value]) => [camelCase(name), value]));
    expect((await admin().graphql(mutation, { i: input })).data).toEqual({ applicationSettingsUpdate: { errors: [] } });
    const { data } = await admin().graphql(`{ applicationSettings { ${settingNames.map(camelCase).join(' ')} } }`);
    expect(data.applicationSettings).toEqual(
      Object.fromEntries(Object.entries(shown(second)).map(([name, value]) => [camelCase(name), value])),
    );
  });

  it('takes its least and its largest number, and null if it may be unset', async () => {
    for (const at of [0, 1] as const) {
      const values = Object.fromEntries(integers.map((name) => [name, (existing[name] ?? boundsOf(name))[at]]));
      expect(await admin().put(PATH, values)).toMatchObject({ status: 200, body: values });
    }
    const unset = Object.fromEntries(settingNames.filter(isNullable).map((name) => [name, null]));
    expect(await admin().put(PATH, unset)).toMatchObject({ status: 200, body: unset });
  });

  it('refuses numbers beyond its bounds by name, and changes nothing', async () => {
    const beyond = (at: 0 | 1) =>
      Object.fromEntries(integers.map((name) => [name, boundsOf(name)[at] + (at === 0 ? -1 : 1)]));
    const named = Object.fromEntries(
      integers.map((name) => [name, [expect.stringMatching(/^must be (greater|less)/)]]),
    );
    expect(await refused(beyond(0))).toEqual({ message: named });
    expect(await refused(beyond(1))).toEqual({ message: named });
  });

  it('refuses values of a wrong type by name, and changes nothing', async () => {
    for (const part of chunks(settingNames, 15)) {
      const { error } = await refused(Object.fromEntries(part.map((name) => [name, wrong(name)])));
      for (const name of part) expect(error).toMatch(new RegExp(`(^|, )${name}(\\[\\w+\\])* (is|does)`));
    }
  });

  it('refuses other wrong values by name, and changes nothing', async () => {
    const derived = (name: SettingName) => {
      const type = typeOf(name);
      return type instanceof z.ZodBoolean || type instanceof z.ZodEnum || integers.includes(name);
    };
    const rows = settingNames.filter((name) => !derived(name) && !CHOICES_ONLY.includes(name));
    expect(Object.keys(BAD).toSorted()).toEqual(rows.toSorted());
    for (const at of [0, 1, 2, 3]) {
      const values = Object.fromEntries(
        Object.entries(BAD).flatMap(([name, bad]) => (at < bad.length ? [[name, bad[at]]] : [])),
      );
      const input = Object.fromEntries(Object.entries(values).map(([name, value]) => [camelCase(name), value]));
      const before = await read();
      const mutation = `mutation ($i: ApplicationSettingsUpdateInput!) { applicationSettingsUpdate(input: $i) { errors } }`;
      const { data } = await admin().graphql(mutation, { i: input });
      expect(data.applicationSettingsUpdate.errors).toHaveLength(Object.keys(values).length);
      expect(await read()).toEqual(before);
      expect(Object.keys((await refused(values)).message).toSorted()).toEqual(Object.keys(values).toSorted());
    }
  });

  it('that requires others is refused until they have a value, and keeps them while it is on', async () => {
    const declared = settingNames.flatMap((name) => {
      const { requires } = factsOf(settingsSchema.shape[name]);
      return requires ? [[name, requires] as const] : [];
    });
    expect(Object.fromEntries(declared)).toEqual(REQUIRES);
    for (const [name, needed] of declared) {
      // The grace period always has a value.
      if (name === 'require_two_factor_authentication') continue;
      const problems = Object.fromEntries(needed.map((each) => [each, [`is required while ${name} is on`]]));
      expect(await refused({ [name]: true })).toEqual({ message: problems });
      if (isLeftOff(name)) continue;
      const values = Object.fromEntries(
        settingNames.filter((each) => needed.includes(each)).map((each) => [each, good(each)[0]]),
      );
      expect((await admin().put(PATH, { ...values, [name]: true })).status).toBe(200);
      for (const each of needed) expect(await refused({ [each]: '' })).toEqual({ message: { [each]: problems[each] } });
      expect((await admin().put(PATH, { [name]: false, ...mapped(needed, '') })).status).toBe(200);
    }
  });

  it('that needs a value is refused without one over GraphQL, beside others too', async () => {
    const before = await read();
    const mutation = `mutation ($i: ApplicationSettingsUpdateInput!) { applicationSettingsUpdate(input: $i) { errors } }`;
    const input = { signupEnabled: null, maxArtifactsSize: null, homePageUrl: 'https://example.com/other' };
    const { data } = await admin().graphql(mutation, { i: input });
    expect(data.applicationSettingsUpdate.errors.toSorted()).toEqual([
      "Max artifacts size can't be blank",
      "Signup enabled can't be blank",
    ]);
    expect(await read()).toEqual(before);
  });

  it('that needs a value is refused by name if it is null or empty over REST, and changes nothing', async () => {
    const needy = settingNames.filter((name) => !isNullable(name) && !(typeOf(name) instanceof z.ZodString));
    expect(needy.length).toBeGreaterThan(100);
    for (const part of chunks(needy, 15)) {
      const { error } = await refused({ ...mapped(part, null), home_page_url: 'https://example.com/other' });
      expect(error.split(', ')).toEqual(part.map((name) => `${name} can't be blank`));
    }
    const scalars = needy.filter((name) => !(typeOf(name) instanceof z.ZodArray));
    for (const part of chunks(scalars, 15)) {
      const { error } = await refused(mapped(part, ''));
      expect(error.split(', ')).toEqual(part.map((name) => `${name} can't be blank`));
    }
    for (const [name, part] of [
      ['default_branch_protection_defaults[allow_force_push]', { allow_force_push: null }],
      ['default_branch_protection_defaults[allowed_to_push]', { allowed_to_push: null }],
    ] as const) {
      expect(await refused({ default_branch_protection_defaults: part })).toEqual({ error: `${name} can't be blank` });
    }
    expect(await refused({ asset_proxy_whitelist: null })).toEqual({ error: "asset_proxy_whitelist can't be blank" });
  });

  it('that must be above another is refused otherwise', async () => {
    for (const name of ABOVE) {
      const other = factsOf(settingsSchema.shape[name]).above ?? '';
      expect(await refused({ [name]: 5, [other]: 5 })).toEqual({
        message: { [name]: [`must be greater than ${other}`] },
      });
      expect((await admin().put(PATH, { [name]: 6, [other]: 5 })).status).toBe(200);
      expect(await refused({ [other]: 6 })).toEqual({ message: { [name]: [`must be greater than ${other}`] } });
    }
  });

  it('has its other names, which write it, and are shown beside it', async () => {
    const forms: Readonly<Record<string, readonly [sent: unknown, stored: unknown]>> = {
      default_branch_protection: [0, expect.objectContaining({ allow_force_push: true })],
      outbound_local_requests_allowlist_raw: ['10.0.0.1\nexample.test', ['10.0.0.1', 'example.test']],
    };
    const given = Object.fromEntries(
      Array.from(aliases, ([name, { setting }]) => [name, forms[name]?.[0] ?? good(setting)[0]]),
    );
    const stored = Object.fromEntries(
      Array.from(aliases, ([name, { setting }]) => [setting, forms[name]?.[1] ?? good(setting)[0]]),
    );
    const { status, body } = await admin().put(PATH, { spamcheck_api_key: 'x', ...given, ...requiredBy(given) });
    expect(status).toBe(200);
    expect(body).toMatchObject(shown(stored));
    for (const [name, { setting, form }] of aliases) {
      expect([name, body[name]]).toEqual([name, form ? given[name] : body[setting]]);
    }
    // The setting's own name takes precedence, then the names of tools, then deprecated ones.
    const own = {
      max_export_size: 1,
      asset_proxy_allowlist: 'own.example',
      default_branch_protection_defaults: { allow_force_push: false },
    };
    const both = await admin().put(PATH, {
      asset_proxy_whitelist: 'old.example',
      default_branch_protection: 0,
      ...own,
    });
    expect(both.body).toMatchObject({
      asset_proxy_allowlist: ['own.example'],
      asset_proxy_whitelist: ['own.example'],
      default_branch_protection_defaults: { allow_force_push: false },
    });
    expect(await refused({ default_branch_protection: 5 })).toEqual({
      message: { default_branch_protection: ['must be less than or equal to 4'] },
    });
    expect(await refused({ admin_notification_email: 'nobody' })).toEqual({
      message: { admin_notification_email: ['is not an email address'] },
    });
  });

  it('that names a group or a project is refused unless there is one, and changes nothing', async () => {
    const { db } = app().hub.services;
    const { id: personal } = await db
      .selectFrom('namespaces')
      .select('id')
      .where('kind', '=', 'user')
      .limit(1)
      .executeTakeFirstOrThrow();
    for (const [names, kind, id] of [
      [named.group, 'group', 2_147_483_647],
      [named.group, 'group', personal],
      [named.project, 'project', 2_147_483_647],
    ] as const) {
      const values = mapped(names, id);
      expect(await refused({ ...values, max_export_size: 5 })).toEqual({
        message: mapped(names, [`must be an existing ${kind}`]),
      });
      const mutation = `mutation ($i: ApplicationSettingsUpdateInput!) { applicationSettingsUpdate(input: $i) { errors } }`;
      const input = Object.fromEntries(names.map((name) => [camelCase(name), id]));
      const { data } = await admin().graphql(mutation, { i: input });
      expect(data.applicationSettingsUpdate.errors).toEqual(
        names.map(
          (name) => `${name[0]?.toUpperCase()}${name.slice(1).replaceAll('_', ' ')} must be an existing ${kind}`,
        ),
      );
      const stranger = app().as(await app().make.user());
      expect((await stranger.put(PATH, values)).status).toBe(403);
    }
  });

  it('that is a list may be sent as text', async () => {
    const lists = settingNames.filter((name) => Array.isArray(good(name)[0]));
    const words = Object.fromEntries(lists.map((name) => [name, [good(name)[0]].flat()]));
    for (const between of [',', ', ', ' ', '\n']) {
      await admin().put(PATH, mapped(lists, ''));
      const sent = Object.fromEntries(lists.map((name) => [name, words[name]?.join(between)]));
      expect(await admin().put(PATH, sent)).toMatchObject({ status: 200, body: words });
    }
  });

  it('that is marked as without effect is read nowhere, and every other one is', () => {
    const source = sources('src')
      .filter((path) => !path.includes('/settings/registry'))
      .map((path) => readFileSync(path, 'utf8'))
      .join('\n');
    const words = new Set(source.match(/\b[a-z]\w+\b/g));
    const members = source.matchAll(/(?:\bsettings|getSettings\(\w+\)\))\.(\w+)/g);
    const direct = new Set(Array.from(members, ([, name]) => name));
    const composed = /^throttle_/;
    for (const name of settingNames) {
      const { withoutEffect = false } = factsOf(settingsSchema.shape[name]);
      if (withoutEffect) expect([name, direct.has(name)]).toEqual([name, false]);
      else expect([name, words.has(name) || composed.test(name)]).toEqual([name, true]);
    }
  });

  it('that is marked as without effect is marked under all its names in OpenAPI, GraphQL and the docs', () => {
    const { paths, components } = JSON.parse(readFileSync('schema/openapi.json', 'utf8'));
    const inputs = paths['/api/v4/application/settings'].put.requestBody.content['application/json'].schema.properties;
    const graphql = buildSchema(readFileSync('schema/schema.graphql', 'utf8')).getTypeMap();
    const rows = readFileSync('docs/settings.md', 'utf8').split('\n');
    const isMarked = (text: string | null | undefined) => text?.includes('**Without effect**') === true;
    const fieldOf = (type: string, name: string) => {
      const named = graphql[type];
      return named && 'getFields' in named ? named.getFields()[name]?.description : null;
    };
    const names = [...settingNames.map((name) => [name, name] as const), ...namesOfAliases()];
    for (const [name, setting] of names) {
      const texts = [
        inputs[name].description,
        components.schemas.ApplicationSettings.properties[name].description,
        fieldOf('ApplicationSettings', camelCase(setting)),
        fieldOf('ApplicationSettingsUpdateInput', camelCase(setting)),
        rows.find((row) => row.startsWith(`| \`${setting}\` |`) && row.includes(`\`${name}\``)),
      ];
      const marks = factsOf(settingsSchema.shape[setting]).withoutEffect === true;
      expect([name, ...texts.map(isMarked)]).toEqual([name, ...texts.map(() => marks)]);
    }
  });
});

const namesOfAliases = () => Array.from(aliases, ([name, { setting }]) => [name, setting] as const);

/** Returns the parameters of a form, with lists and hashes in brackets. */
const pairs = (values: Values): [string, string][] =>
  Object.entries(values).flatMap(([name, value]) => pairsOf(name, value));
const pairsOf = (name: string, value: unknown): [string, string][] => {
  if (Array.isArray(value))
    return value.length === 0 ? [[`${name}[]`, '']] : value.flatMap((each) => pairsOf(`${name}[]`, each));
  if (typeof value !== 'object' || value === null) return [[name, String(value)]];
  return Object.entries(value).flatMap(([key, each]) => pairsOf(`${name}[${key}]`, each));
};

const mapped = (names: readonly string[], value: unknown): Values =>
  Object.fromEntries(names.map((name) => [name, value]));

/** Returns values for the settings that the given switches require. */
const requiredBy = (given: Values): Values =>
  Object.fromEntries(
    Object.entries(REQUIRES).flatMap(([name, needed]) =>
      given[name] === true
        ? settingNames.filter((each) => needed.includes(each)).map((each) => [each, good(each)[0]])
        : [],
    ),
  );

const sources = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && entry.name !== 'tables.ts')
    .map((entry) => join(entry.parentPath, entry.name));
