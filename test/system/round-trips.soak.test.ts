import { readFileSync } from 'node:fs';
import { buildSchema, getNamedType, isEnumType, isInputObjectType } from 'graphql';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { routes } from '#app/routes.ts';
import { groupAttributes } from '#domains/groups/attributes.ts';
import { featureSwitches, attributeSchemas as projectSchemas } from '#domains/projects/attributes.ts';
import { useApp } from '../support/app.ts';
import { png } from '../support/pictures.ts';

// Every declared attribute can be written over REST and GraphQL, and reads back as written.

const app = useApp();
const admin = () => app().as(app().root);
const schema = buildSchema(readFileSync(new URL('../../schema/schema.graphql', import.meta.url), 'utf8'));

type Values = Readonly<Record<string, unknown>>;
type Schemas = Readonly<Record<string, z.core.$ZodType>>;

/** Values for attributes that do not accept any text or list. */
const FITTING: Values = {
  topics: ['round', 'trip'],
  discord: '12345678901234567',
  website_url: 'https://example.com/',
  timezone: 'Europe/Berlin',
  ip_restriction_ranges: '127.0.0.0/8',
};

interface Json {
  readonly type?: unknown;
  readonly enum?: readonly unknown[];
  readonly maximum?: number;
  readonly minimum?: number;
  readonly anyOf?: readonly Json[];
}

/** Returns a value other than the current one, or undefined for objects, which have their own tests. */
const another = (name: string, json: Json, current: unknown): unknown => {
  if (name in FITTING) return FITTING[name];
  const plain = json.anyOf?.find(({ type }) => type !== 'null') ?? json;
  if (plain.enum) return plain.enum.find((value) => value !== current && value !== null);
  const type = Array.isArray(plain.type) ? plain.type.find((each) => each !== 'null') : plain.type;
  if (type === 'boolean') return current !== true;
  if (type === 'integer') {
    const { minimum = 0, maximum = 1_000_000 } = plain;
    const next = typeof current === 'number' ? current + 1 : Math.max(minimum, 1);
    return next <= maximum ? next : next - 2;
  }
  return type === 'string' ? (current === 'changed' ? 'changed-again' : 'changed') : undefined;
};

const others = (schemas: Schemas, names: readonly string[], current: Values): Values => {
  const values: Record<string, unknown> = {};
  for (const name of names) {
    const declared = schemas[name];
    const json: Json = declared ? z.toJSONSchema(declared, { io: 'input', unrepresentable: 'any' }) : {};
    const value = another(name, json, current[name]);
    if (value !== undefined) values[name] = value;
  }
  return values;
};

const restNames = (method: string, path: string, schemas: Schemas, without: readonly string[]): string[] => {
  const route = routes.find((each) => each.method === method && each.path === path);
  if (!route) throw new Error(`There is no ${method} ${path}`);
  return Object.keys(route.shape).filter((name) => name in schemas && !without.includes(name));
};

const camelCase = (name: string): string => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

const inputNames = (input: string, schemas: Schemas, without: readonly string[]): string[] => {
  const type = schema.getType(input);
  if (!isInputObjectType(type)) throw new Error(`There is no input ${input}`);
  return Object.keys(schemas).filter((name) => camelCase(name) in type.getFields() && !without.includes(name));
};

/** Returns the values in the form of the GraphQL input. */
const asInput = (input: string, values: Values): Values => {
  const type = schema.getType(input);
  if (!isInputObjectType(type)) throw new Error(`There is no input ${input}`);
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      const field = getNamedType(type.getFields()[camelCase(name)]?.type);
      const member = isEnumType(field)
        ? field.getValues().find((each) => each.name.toLowerCase() === String(value).toLowerCase())?.name
        : value;
      return [camelCase(name), member];
    }),
  );
};

const mutate = async (name: string, input: Values): Promise<void> => {
  const type = `${name[0]?.toUpperCase()}${name.slice(1)}Input`;
  const answer = await admin().graphql(`mutation($i: ${type}!) { ${name}(input: $i) { errors } }`, { i: input });
  expect(answer).toEqual({ data: { [name]: { errors: [] } } });
};

const read = async (path: string): Promise<Values> => {
  const { status, body } = await admin().get(path);
  expect(status).toBe(200);
  return body;
};

const expectWritten = async (path: string, values: Values): Promise<void> => {
  expect(Object.keys(values)).not.toEqual([]);
  expect(await read(path)).toMatchObject(values);
};

interface Kind {
  readonly collection: string;
  readonly schemas: Schemas;
  readonly mutations: 'project' | 'group';
  readonly identity: string;
  /** Attributes that are tested elsewhere, because they do more than store a value. */
  readonly without: readonly string[];
}

const KINDS: readonly Kind[] = [
  {
    collection: '/projects',
    schemas: projectSchemas,
    mutations: 'project',
    identity: 'path_with_namespace',
    without: [],
  },
  {
    collection: '/groups',
    schemas: groupAttributes.shape,
    mutations: 'group',
    identity: 'full_path',
    without: [
      'name',
      'path',
      'visibility',
      'default_branch',
      'file_template_project_id',
      // No record shows this attribute.
      'service_access_tokens_expiration_enforced',
    ],
  },
];

describe.each(KINDS)('$collection', ({ collection, schemas, mutations, identity, without }) => {
  const made = async (values: Values) => {
    const name = `trip-${Math.random().toString(36).slice(2)}`;
    const { status, body } = await admin().post(collection, { name, path: name, ...values });
    expect([status, body]).toEqual([201, expect.anything()]);
    return body;
  };

  it('keeps values written over REST', async () => {
    const usual = await read(`${collection}/${(await made({})).id}`);
    const first = others(schemas, restNames('POST', collection, schemas, without), usual);
    const { id } = await made(first);
    await expectWritten(`${collection}/${id}`, first);
    const current = await read(`${collection}/${id}`);
    const second = others(schemas, restNames('PUT', `${collection}/:id`, schemas, without), current);
    expect(await admin().put(`${collection}/${id}`, { ...second })).toMatchObject({ status: 200 });
    await expectWritten(`${collection}/${id}`, second);
  });

  it('keeps values written over GraphQL', async () => {
    const usual = await read(`${collection}/${(await made({})).id}`);
    const create = mutations === 'project' ? 'ProjectCreateInput' : 'GroupCreateInput';
    const update = mutations === 'project' ? 'ProjectUpdateInput' : 'GroupUpdateInput';
    const first = others(schemas, inputNames(create, schemas, without), usual);
    const path = `trip-${mutations}`;
    await mutate(`${mutations}Create`, { name: path, path, ...asInput(create, first) });
    const full = mutations === 'project' ? `${app().root.username}/${path}` : path;
    const at = `${collection}/${encodeURIComponent(full)}`;
    await expectWritten(at, first);
    const current = await read(at);
    expect(current[identity]).toBe(full);
    const second = others(schemas, inputNames(update, schemas, without), current);
    await mutate(`${mutations}Update`, { fullPath: full, ...asInput(update, second) });
    await expectWritten(at, second);
  });
});

describe('projects', () => {
  const SWITCHES = Object.entries(featureSwitches);

  it('keep settings that an administrator writes for another user', async () => {
    const user = await app().make.user();
    const create = `/projects/user/${user.id}`;
    const usual = (await admin().post(create, { name: 'Usual' })).body;
    const names = restNames('POST', '/projects/user/:user_id', projectSchemas, []);
    const values = {
      ...others(projectSchemas, names, usual),
      path: 'written',
      visibility: 'internal',
    };
    const { status, body } = await admin().post(create, values);
    expect([status, body]).toEqual([201, expect.objectContaining({ name: 'written', empty_repo: true })]);
    expect(body.namespace.full_path).toBe(user.username);
    await expectWritten(`/projects/${body.id}`, values);
    const started = { name: 'Started', default_branch: 'trunk', initialize_with_readme: true };
    expect((await admin().post(create, started)).body).toMatchObject({ default_branch: 'trunk', empty_repo: false });
  });

  it.each(['/projects', '/projects/user/:user_id', 'PUT'])(
    'keep settings written under older names (%s)',
    async (to) => {
      const user = await app().make.user();
      const write = async (values: Values) => {
        const path = `older-${Math.random().toString(36).slice(2)}`;
        if (to !== 'PUT') return admin().post(to.replace(':user_id', String(user.id)), { path, ...values });
        const { body } = await admin().post('/projects', { path });
        return admin().put(`/projects/${body.id}`, { ...values });
      };
      const off = Object.fromEntries(SWITCHES.map(([name]) => [name, false]));
      const { status, body } = await write({
        ...off,
        tag_list: 'older,names',
        public_builds: false,
        emails_disabled: true,
        container_expiration_policy_attributes: { cadence: '7d', enabled: true, keep_n: 5 },
        repository_storage: 'default',
      });
      expect(status).toBeLessThan(300);
      expect(body).toMatchObject({
        ...Object.fromEntries(SWITCHES.map(([, name]) => [name, 'disabled'])),
        topics: ['older', 'names'],
        public_jobs: false,
        emails_enabled: false,
        container_expiration_policy: { cadence: '7d', enabled: true, keep_n: 5 },
      });
      expect(await write({ repository_storage: 'elsewhere' })).toMatchObject({ status: 400 });
      const policy = {
        cadence: '14d',
        enabled: false,
        keep_n: 25,
        older_than: '30d',
        name_regex: 'a',
        name_regex_keep: 'b',
      };
      expect((await write({ container_expiration_policy: policy })).body.container_expiration_policy).toMatchObject(
        policy,
      );
      const unbuilt = [
        'template_name',
        'template_project_id',
        'use_custom_template',
        'group_with_project_templates_id',
        'mirror',
        'mirror_trigger_builds',
        'mirror_user_id',
        'mirror_overwrites_diverged_branches',
        'only_mirror_protected_branches',
        ...(to === 'PUT' ? ['import_url'] : []),
      ];
      expect((await write(Object.fromEntries(unbuilt.map((name) => [name, false])))).status).toBeLessThan(300);
      for (const name of unbuilt)
        expect(await write({ [name]: '1' })).toMatchObject({
          status: 400,
          body: { error: expect.stringContaining(`${name} is not supported`) },
        });
      const form = new FormData();
      form.set('avatar', new Blob([new Uint8Array(png())]), 'project.png');
      if (to === 'PUT') return;
      form.set('path', 'pictured');
      const pictured = await admin().post(to.replace(':user_id', String(user.id)), form);
      expect(pictured.body.avatar_url).toMatch(/\.png$/);
    },
  );
});

describe('groups', () => {
  it('keep settings written under older names', async () => {
    const path = 'older-names';
    const protection = {
      allowed_to_push: [{ access_level: 30 }],
      allowed_to_merge: [{ access_level: 40 }],
      allow_force_push: true,
      developer_can_initial_push: true,
    };
    const { status, body } = await admin().post('/groups', {
      name: path,
      path,
      default_branch: 'trunk',
      default_branch_protection_defaults: protection,
      duo_features_enabled: false,
      lock_duo_features_enabled: true,
    });
    expect([status, body]).toEqual([201, expect.anything()]);
    const at = `/groups/${body.id}`;
    await expectWritten(at, {
      default_branch: 'trunk',
      default_branch_protection_defaults: protection,
      assistant_features_enabled: false,
      lock_assistant_features_enabled: true,
    });
    const project = await app().make.project({ namespace_id: body.id });
    const second = {
      default_branch: 'stem',
      default_branch_protection: 1,
      duo_features_enabled: true,
      lock_duo_features_enabled: false,
      emails_disabled: true,
      file_template_project_id: project.id,
    };
    expect(await admin().put(at, second)).toMatchObject({ status: 200 });
    await expectWritten(at, {
      default_branch: 'stem',
      default_branch_protection: 1,
      assistant_features_enabled: true,
      lock_assistant_features_enabled: false,
      emails_enabled: false,
      file_template_project_id: project.id,
    });
    // New projects start with the group's branch.
    const started = { name: 'Started', namespace_id: body.id, initialize_with_readme: true };
    expect((await admin().post('/projects', started)).body).toMatchObject({ default_branch: 'stem' });
  });
});

describe('/users', () => {
  const profile: Values = {
    bio: 'Writes',
    location: 'Here',
    skype: 'sky',
    linkedin: 'linked',
    twitter: 'bird',
    organization: 'Org',
    job_title: 'Engineer',
    pronouns: 'they',
    theme_id: 3,
    color_scheme_id: 4,
    view_diffs_file_by_file: true,
    preferred_language: 'pt_BR',
    first_day_of_week: 6,
    private_profile: true,
    discord: FITTING.discord,
    website_url: FITTING.website_url,
  };
  const byAdministrators: Values = {
    ...profile,
    note: 'Known',
    external: true,
    can_create_group: false,
    projects_limit: 7,
    shared_runners_minutes_limit: 8,
    extra_shared_runners_minutes_limit: 9,
  };

  it('keeps auditors, SAML identities and chosen addresses', async () => {
    const group = await app().make.group();
    const person = { name: 'Audits', username: 'trip-audits', email: 'trip-audits@example.com' };
    const password = 'a-long-enough-password';
    const made = await admin().post('/users', { ...person, password, skip_confirmation: true, auditor: true });
    expect(made.body).toMatchObject({ is_auditor: true });
    const at = `/users/${made.body.id}`;
    expect((await admin().get('/users?auditors=true')).body).toMatchObject([{ id: made.body.id }]);
    expect((await admin().put(at, { auditor: false })).body).toMatchObject({ is_auditor: false });
    const identity = { group_id_for_saml: group.id, extern_uid: 'trip-name' };
    expect((await admin().put(at, identity)).body.identities).toEqual([
      { provider: 'group_saml', extern_uid: 'trip-name', saml_provider_id: group.id },
    ]);
    const email = 'trip-second@example.com';
    await admin().post(`${at}/emails`, { email, skip_confirmation: true });
    const own = app().as({ id: made.body.id, username: person.username });
    const chosen = { public_email: email, commit_email: email };
    expect((await own.put('/user', chosen)).body).toMatchObject(chosen);
    expect((await own.put('/user', { commit_email: 'of-somebody-else@example.com' })).status).toBe(400);
    expect((await own.get('/user')).body).toMatchObject(chosen);
  });

  it('keeps user attributes written over REST and GraphQL', async () => {
    const person = { name: 'Trip', password: 'a-long-enough-password', skip_confirmation: true };
    const created = await admin().post('/users', {
      ...person,
      ...byAdministrators,
      username: 'trip-rest',
      email: 'trip-rest@example.com',
    });
    expect([created.status, created.body]).toEqual([201, expect.anything()]);
    const stored = (username: string) =>
      app().hub.services.db.selectFrom('users').selectAll().where('username', '=', username).executeTakeFirstOrThrow();
    expect(await stored('trip-rest')).toMatchObject(byAdministrators);
    await mutate('userCreate', {
      name: 'Trip',
      username: 'trip-graphql',
      email: 'trip-graphql@example.com',
      password: person.password,
      skipConfirmation: true,
      ...asInput('UserCreateInput', byAdministrators),
    });
    expect(await stored('trip-graphql')).toMatchObject(byAdministrators);

    for (const overGraphql of [false, true]) {
      const user = await app().make.user();
      const own = await app().make.user();
      if (overGraphql) {
        await mutate('userUpdate', {
          id: `gid://gitlab/User/${user.id}`,
          ...asInput('UserUpdateInput', byAdministrators),
        });
        const { data } = await app()
          .as(own)
          .graphql('mutation($i: ProfileUpdateInput!) { profileUpdate(input: $i) { errors } }', {
            i: asInput('ProfileUpdateInput', profile),
          });
        expect(data).toEqual({ profileUpdate: { errors: [] } });
      } else {
        expect(await admin().put(`/users/${user.id}`, { ...byAdministrators })).toMatchObject({ status: 200 });
        expect(
          await app()
            .as(own)
            .put('/user', { ...profile }),
        ).toMatchObject({ status: 200 });
      }
      expect(await stored(user.username)).toMatchObject(byAdministrators);
      expect(await stored(own.username)).toMatchObject(profile);
    }
  });
});
