import { describe, expect, it } from 'vitest';
import { removeGroup } from '#domains/groups/deletion.ts';
import type { TestUser } from '../support/app.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { until } from '../support/until.ts';

const app = useApp();
const admin = () => app().as(app().root);

const form = (name: string, content: string | Uint8Array<ArrayBuffer>, type = 'text/plain') => {
  const data = new FormData();
  data.set('file', new File([content], name, { type }));
  return data;
};

const filesIn = async (folder: string) => {
  const keys: string[] = [];
  for await (const { key } of app().hub.services.storage.list(folder)) keys.push(key);
  return keys;
};

const removeForGood = ({ id }: { readonly id: number }) => removeGroup(app().context(), id);

interface Place {
  readonly kind: 'group' | 'project';
  readonly id: number;
  readonly owner: TestUser;
  readonly guest: TestUser;
  readonly maintainer: TestUser;
  /** The path below the API. */
  readonly path: string;
}

const makePlace = async (kind: Place['kind'], visibility = 'private'): Promise<Place> => {
  const owner = await app().make.user();
  const guest = await app().make.user();
  const maintainer = await app().make.user();
  if (kind === 'group') {
    const group = await app().make.group({ visibility }, owner);
    await app().make.groupMember(group, guest, 10);
    await app().make.groupMember(group, maintainer, 40);
    return { kind, id: group.id, owner, guest, maintainer, path: `/groups/${group.id}/uploads` };
  }
  const project = await app().make.project({ visibility }, owner);
  await app().make.projectMember(project, guest, 10);
  await app().make.projectMember(project, maintainer, 40);
  return { kind, id: project.id, owner, guest, maintainer, path: `/projects/${project.id}/uploads` };
};

const attach = async (client: Client, place: Place, name = 'note.txt', content = 'hello') => {
  const { status, body } = await client.post(place.path, form(name, content));
  expect(status).toBe(201);
  return body;
};

describe.each(['group', 'project'] as const)('a file attached to a %s', (kind) => {
  it('is returned as it was sent, by id and by URL', async () => {
    const place = await makePlace(kind);
    const made = await attach(app().as(place.guest), place);
    expect(made).toEqual({
      id: expect.any(Number),
      alt: 'note.txt',
      url: expect.stringMatching(/^\/uploads\/[0-9a-f]{40}\/note\.txt$/),
      full_path: `/-/${kind}/${place.id}${made.url}`,
      markdown: `[note.txt](${made.url})`,
    });
    const byId = await app().as(place.maintainer).get(`${place.path}/${made.id}`);
    expect([byId.status, byId.body]).toEqual([200, 'hello']);
    const part = await app().as(place.maintainer).get(`${place.path}/${made.id}`, { range: 'bytes=1-2' });
    expect([part.status, part.headers.get('content-range'), part.body]).toEqual([206, 'bytes 1-2/5', 'el']);
    const byAddress = await app()
      .as(place.guest)
      .get(`${place.path}${made.url.slice('/uploads'.length)}`);
    expect([byAddress.status, byAddress.body]).toEqual([200, 'hello']);
    const page = await app().as(place.guest).get(made.full_path);
    expect([page.status, page.body]).toEqual([200, 'hello']);
    expect(page.headers.get('content-length')).toBe('5');
    expect((await app().as(place.guest).head(made.full_path)).headers.get('content-length')).toBe('5');
  });

  it('is listed for Maintainers, the newest first', async () => {
    const place = await makePlace(kind);
    const first = await attach(app().as(place.guest), place, 'first.txt', '1');
    const second = await attach(app().as(place.owner), place, 'second.txt', '22');
    const listed = await app().as(place.maintainer).get(place.path);
    expect(listed.body).toEqual([
      {
        id: second.id,
        size: 2,
        filename: 'second.txt',
        created_at: expect.stringMatching(/Z$/),
        uploaded_by: { id: place.owner.id, username: place.owner.username, name: expect.any(String) },
      },
      expect.objectContaining({ id: first.id, size: 1, filename: 'first.txt' }),
    ]);
    expect((await app().as(place.maintainer).get(`${place.path}?per_page=1`)).headers.get('x-total')).toBe('2');
  });

  it('cannot be listed, read or removed by other users', async () => {
    const place = await makePlace(kind);
    const made = await attach(app().as(place.owner), place);
    const stranger = await app().make.user();
    const at = `${place.path}${made.url.slice('/uploads'.length)}`;
    const guest = app().as(place.guest);
    expect((await guest.get(place.path)).status).toBe(403);
    expect((await guest.get(`${place.path}/${made.id}`)).status).toBe(403);
    expect((await guest.delete(`${place.path}/${made.id}`)).status).toBe(403);
    expect((await guest.delete(at)).status).toBe(403);
    for (const client of [app().as(stranger), app().anonymous]) {
      for (const path of [place.path, `${place.path}/${made.id}`]) {
        expect([401, 404]).toContain((await client.get(path)).status);
      }
      expect([401, 404]).toContain((await client.delete(`${place.path}/${made.id}`)).status);
      expect((await client.get(at)).status).toBe(404);
      expect((await client.get(made.full_path)).status).toBe(404);
      expect([401, 404]).toContain((await client.delete(at)).status);
      expect([401, 404]).toContain((await client.post(place.path, form('x.txt', 'x'))).status);
    }
    // Strangers cannot attach files in a public place either.
    const open = await makePlace(kind, 'public');
    expect((await app().as(stranger).post(open.path, form('x.txt', 'x'))).status).toBe(403);
    expect((await app().anonymous.post(open.path, form('x.txt', 'x'))).status).toBe(401);
    expect((await app().as(open.owner).get(open.path)).body).toEqual([]);
    expect((await app().as(place.owner).get(`${place.path}/${made.id}`)).body).toBe('hello');
  });

  it('can be read by everyone who has the URL if its place is public', async () => {
    const place = await makePlace(kind, 'public');
    const made = await attach(app().as(place.owner), place);
    expect((await app().anonymous.get(made.full_path)).body).toBe('hello');
    const guessed = made.full_path.replace(/[0-9a-f]{40}/, '0'.repeat(40));
    expect((await app().anonymous.get(guessed)).status).toBe(404);
    expect((await app().anonymous.get(made.full_path.replace('note', 'other'))).status).toBe(404);
  });

  it('can be reached only through its own place', async () => {
    const place = await makePlace(kind);
    const other = await makePlace(kind);
    const made = await attach(app().as(place.owner), place);
    const client = app().as(other.owner);
    expect((await client.get(`${other.path}/${made.id}`)).status).toBe(404);
    expect((await client.get(`${other.path}${made.url.slice('/uploads'.length)}`)).status).toBe(404);
    expect((await client.delete(`${other.path}/${made.id}`)).status).toBe(404);
    expect((await app().as(place.owner).get(`${place.path}/${made.id}`)).status).toBe(200);
  });

  it('is deleted from storage when a Maintainer deletes it', async () => {
    const place = await makePlace(kind);
    const [one, two] = [await attach(admin(), place), await attach(admin(), place)];
    expect(await filesIn(`uploads/${kind}/${place.id}/`)).toHaveLength(2);
    const maintainer = app().as(place.maintainer);
    expect((await maintainer.delete(`${place.path}/${one.id}`)).status).toBe(204);
    expect((await maintainer.delete(`${place.path}${two.url.slice('/uploads'.length)}`)).status).toBe(204);
    expect((await maintainer.delete(`${place.path}/${one.id}`)).status).toBe(404);
    expect((await maintainer.get(place.path)).body).toEqual([]);
    await app().settle();
    await until('the files are gone', async () => (await filesIn(`uploads/${kind}/${place.id}/`)).length === 0);
  });

  it('requires a file of at most the size in the settings', async () => {
    const place = await makePlace(kind);
    const client = app().as(place.owner);
    expect((await client.post(place.path, {})).status).toBe(400);
    expect((await client.post(place.path, { file: 'text' })).status).toBe(400);
    const wrong = new FormData();
    wrong.set('other', new File(['x'], 'x.txt'));
    expect((await client.post(place.path, wrong)).status).toBe(400);
    await admin().put('/application/settings', { max_attachment_size: 1 });
    try {
      const large = await client.post(place.path, form('large.bin', new Uint8Array(1024 * 1024 + 1)));
      expect(large.status).toBe(413);
      expect((await client.post(place.path, form('fits.bin', new Uint8Array(1024 * 1024)))).status).toBe(201);
    } finally {
      await admin().put('/application/settings', { max_attachment_size: 100 });
    }
    expect(await filesIn(`uploads/${kind}/${place.id}/`)).toHaveLength(1);
  });

  it('is shown inline if it is a picture, and never runs scripts', async () => {
    const place = await makePlace(kind, 'public');
    const client = app().as(place.owner);
    for (const [name, type, disposition] of [
      ['page.html', 'text/plain; charset=utf-8', 'attachment'],
      ['drawing.svg', 'text/plain; charset=utf-8', 'attachment'],
      ['script.js', 'text/plain; charset=utf-8', 'attachment'],
      ['tool.exe', 'application/octet-stream', 'attachment'],
      ['noending', 'application/octet-stream', 'attachment'],
      ['photo.PNG', 'image/png', 'inline'],
    ] as const) {
      const made = await attach(client, place, name, '<script>alert(1)</script>');
      const { headers } = await app().anonymous.get(made.full_path);
      expect(headers.get('content-type')).toBe(type);
      expect(headers.get('content-disposition')).toMatch(new RegExp(`^${disposition}; filename=`));
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('content-security-policy')).toBe("default-src 'none'; sandbox");
    }
    const picture = await attach(client, place, 'photo.png');
    expect(picture).toMatchObject({ alt: 'photo', markdown: `![photo](${picture.url})` });
  });

  it('keeps only the harmless part of its name', async () => {
    const place = await makePlace(kind, 'public');
    const client = app().as(place.owner);
    for (const [sent, kept] of [
      ['../../etc/passwd', 'passwd'],
      ['a b](x).txt', 'a_b__x_.txt'],
      ['größe.txt', 'größe.txt'],
      ['..', 'file'],
      ['...', '_...'],
      ['x\u202egnp.exe', 'x_gnp.exe'],
      [`${'l'.repeat(400)}.txt`, `${'l'.repeat(196)}.txt`],
    ] as const) {
      const made = await attach(client, place, sent, 'x');
      expect(decodeURIComponent(made.url.split('/').at(-1))).toBe(kept);
      const read = await app().anonymous.get(made.full_path);
      expect([read.status, read.body]).toEqual([200, 'x']);
      expect(read.headers.get('content-disposition')).not.toMatch(/[\r\n]/);
    }
  });

  it('emits events for Maintainers, without its URL', async () => {
    const place = await makePlace(kind);
    const made = await attach(app().as(place.owner), place);
    await app().as(place.owner).delete(`${place.path}/${made.id}`);
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['kind', 'min_access_level', 'payload'])
      .where('subject_type', '=', 'Upload')
      .where('subject_id', '=', made.id)
      .orderBy('id')
      .execute();
    expect(events.map(({ kind: each }) => each)).toEqual(['upload.created', 'upload.deleted']);
    expect(events.every(({ min_access_level }) => min_access_level === 40)).toBe(true);
    expect(JSON.stringify(events)).not.toContain(made.url.split('/')[2]);
  });

  it('is shown to Maintainers over GraphQL, who can delete it', async () => {
    const place = await makePlace(kind, 'public');
    const made = await attach(app().as(place.owner), place);
    const { full_path: group = null, path_with_namespace: project = null } = (
      await admin().get(`/${kind}s/${place.id}`)
    ).body;
    const path = group ?? project;
    const QUERY = `query ($path: ID!) { place: ${kind}(fullPath: $path) { uploads { count nodes { id filename size uploadedBy { id } } } } }`;
    const seen = await app().as(place.maintainer).graphql(QUERY, { path });
    expect(seen.data.place.uploads).toEqual({
      count: 1,
      nodes: [
        {
          id: `gid://gitlab/Upload/${made.id}`,
          filename: 'note.txt',
          size: 5,
          uploadedBy: { id: `gid://gitlab/User/${place.owner.id}` },
        },
      ],
    });
    expect((await app().as(place.guest).graphql(QUERY, { path })).data.place.uploads).toBeNull();
    const REMOVE = `mutation ($path: ID!, $id: UploadID!) { uploadDelete(input: { ${kind}Path: $path, id: $id }) { errors } }`;
    const variables = { path, id: `gid://gitlab/Upload/${made.id}` };
    expect((await app().as(place.guest).graphql(REMOVE, variables)).errors).toBeDefined();
    expect((await app().as(place.maintainer).graphql(REMOVE, variables)).data.uploadDelete.errors).toEqual([]);
    expect((await app().anonymous.get(made.full_path)).status).toBe(404);
  });
});

describe('an uploaded file', () => {
  it('is deleted with its project, and with its group', async () => {
    const project = await makePlace('project');
    const group = await makePlace('group');
    await attach(admin(), project);
    await attach(admin(), group);
    await admin().delete(`/projects/${project.id}`);
    await removeForGood(group);
    await app().settle();
    for (const { kind, id } of [project, group]) {
      expect((await admin().get(`/${kind}s/${id}`)).status).toBe(404);
      await until('the files are gone', async () => (await filesIn(`uploads/${kind}/${id}/`)).length === 0);
    }
  });

  it('is removed if a process died before it inserted the row', async () => {
    const { storage, db } = app().hub.services;
    const { dropUnclaimed } = await import('#domains/uploads/jobs.ts');
    const place = await makePlace('project');
    await attach(admin(), place);
    const claimed = await db
      .selectFrom('uploads')
      .select('storage_key')
      .where('project_id', '=', place.id)
      .executeTakeFirstOrThrow();
    const { Readable } = await import('node:stream');
    const orphan = `uploads/project/${place.id}/orphan`;
    await storage.write(orphan, Readable.from(['x']));
    await app()
      .context()
      .transaction(async (tx) => {
        tx.enqueue(dropUnclaimed, { storage_key: orphan });
        tx.enqueue(dropUnclaimed, { storage_key: claimed.storage_key });
      });
    await app().settle();
    expect(await filesIn(`uploads/project/${place.id}/`)).toEqual([claimed.storage_key]);
  });

  it('counts in the statistics of its project', async () => {
    const place = await makePlace('project');
    const size = async () => (await admin().get(`/projects/${place.id}?statistics=true`)).body.statistics.uploads_size;
    const made = await attach(admin(), place, 'a.txt', '12345');
    await attach(admin(), place, 'b.txt', '123');
    expect(await size()).toBe(8);
    await admin().delete(`${place.path}/${made.id}`);
    expect(await size()).toBe(3);
  });
});

describe('the link of an upload by the path of its project', () => {
  const pathOf = async ({ id }: Place): Promise<string> =>
    (await admin().get(`/projects/${id}`)).body.path_with_namespace;

  it('serves it to everyone who can see the project', async () => {
    const place = await makePlace('project');
    const made = await attach(app().as(place.guest), place);
    const path = await pathOf(place);
    const link = `${app().url}/${path}${made.url}`;
    const read = await app().as(place.guest).get(link);
    expect([read.status, read.body]).toEqual([200, 'hello']);
    expect(read.headers.get('content-disposition')).toMatch(/^attachment; filename="note.txt"/);
    expect(read.headers.get('content-security-policy')).toBe("default-src 'none'; sandbox");
    expect((await app().as(place.guest).head(link)).headers.get('content-length')).toBe('5');
    const part = await app().as(place.guest).get(link, { range: 'bytes=1-2' });
    expect([part.status, part.body]).toEqual([206, 'el']);
    expect((await app().as(place.guest).get(`${app().url}/${path.toUpperCase()}${made.url}`)).body).toBe('hello');
    expect(
      (
        await app()
          .as(place.guest)
          .get(`${app().url}/${encodeURIComponent(path)}${made.url}`)
      ).body,
    ).toBe('hello');
    const narrow = await app().as(place.guest, ['read_user']).get(link);
    expect(narrow).toMatchObject({ status: 403, body: { error: 'insufficient_scope' } });
  });

  it('says the same to strangers as where there is nothing', async () => {
    const place = await makePlace('project');
    const made = await attach(app().as(place.owner), place);
    const picture = await attach(app().as(place.owner), place, 'photo.png');
    const path = await pathOf(place);
    const stranger = app().as(await app().make.user());
    const nothing = await stranger.get(`${app().url}/nobody/nothing${made.url}`);
    expect([nothing.status, nothing.body]).toEqual([404, { message: '404 Project Not Found' }]);
    for (const client of [stranger, app().anonymous]) {
      const refused = await client.get(`${app().url}/${path}${made.url}`);
      expect([refused.status, refused.body]).toEqual([nothing.status, nothing.body]);
    }
    // Pictures of the project are open to everyone who has the link, unless a setting of the project forbids it.
    expect((await stranger.get(`${app().url}/${path}${picture.url}`)).status).toBe(404);
    await app().as(place.owner).put(`/projects/${place.id}`, { enforce_auth_checks_on_uploads: false });
    expect((await stranger.get(`${app().url}/${path}${picture.url}`)).body).toBe('hello');
    expect((await stranger.get(`${app().url}/${path}${made.url}`)).status).toBe(404);
    for (const wrong of [made.url.replace(/[0-9a-f]{40}/, '0'.repeat(40)), made.url.replace('note', 'other')]) {
      expect((await app().as(place.owner).get(`${app().url}/${path}${wrong}`)).status).toBe(404);
    }
    expect((await app().as(place.owner).get(`${app().url}/a%00b/c${made.url}`)).status).toBe(400);
  });

  it('reaches projects of subgroups, and projects and groups under an earlier path', async () => {
    const owner = await app().make.user();
    const top = await app().make.group({}, owner);
    const middle = await app().make.group({ parent_id: top.id }, owner);
    const project = await app().make.project({ namespace_id: middle.id }, owner);
    const client = app().as(owner);
    const { body } = await client.post(`/projects/${project.id}/uploads`, form('note.txt', 'deep'));
    const before = (await client.get(`/projects/${project.id}`)).body.path_with_namespace;
    expect(before.split('/')).toHaveLength(3);
    expect((await client.get(`${app().url}/${before}${body.url}`)).body).toBe('deep');
    await client.put(`/projects/${project.id}`, { path: 'renamed' });
    await client.put(`/groups/${top.id}`, { path: `${top.path}-renamed` });
    expect((await client.get(`/projects/${project.id}`)).body.path_with_namespace).toBe(
      `${top.path}-renamed/${middle.path}/renamed`,
    );
    expect((await client.get(`${app().url}/${top.path}-renamed/${middle.path}/renamed${body.url}`)).body).toBe('deep');
    expect((await client.get(`${app().url}/${before}${body.url}`)).body).toBe('deep');
    expect((await app().anonymous.get(`${app().url}/${before}${body.url}`)).status).toBe(404);
    // A project that takes the earlier path takes its links too.
    await client.put(`/groups/${top.id}`, { path: top.path });
    const path = before.split('/')[2];
    const taker = await client.post('/projects', { namespace_id: middle.id, name: 'Taker', path });
    expect(taker.status).toBe(201);
    expect((await client.get(`${app().url}/${before}${body.url}`)).status).toBe(404);
  });
});

describe('the upload size of a group', () => {
  it('includes files attached to it and to subgroups, wherever these move', async () => {
    const owner = await app().make.user();
    const [top, other] = [await app().make.group({}, owner), await app().make.group({}, owner)];
    const sub = await app().make.group({ parent_id: top.id }, owner);
    const size = async ({ id }: { readonly id: number }) =>
      (
        await admin().get(`/groups?statistics=true&all_available=true&search=${id === top.id ? top.path : other.path}`)
      ).body.find((group: { id: number }) => group.id === id).statistics.uploads_size;
    const send = async (id: number, content: string) =>
      (await app().as(owner).post(`/groups/${id}/uploads`, form('a.txt', content))).body.id;
    const first = await send(sub.id, '12345');
    await send(top.id, '123');
    expect([await size(top), await size(other)]).toEqual([8, 0]);
    await app().as(owner).post(`/groups/${sub.id}/transfer`, { group_id: other.id });
    expect([await size(top), await size(other)]).toEqual([3, 5]);
    await app().as(owner).delete(`/groups/${sub.id}/uploads/${first}`);
    expect([await size(top), await size(other)]).toEqual([3, 0]);
    await send(sub.id, '1234567');
    expect(await size(other)).toBe(7);
    await removeForGood(sub);
    expect([await size(top), await size(other)]).toEqual([3, 0]);
  });
});

describe('enforce_auth_checks_on_uploads', () => {
  it('shows pictures, but nothing else, to everyone who has the URL when disabled', async () => {
    const place = await makePlace('project');
    const picture = await attach(admin(), place, 'photo.png');
    const text = await attach(admin(), place, 'note.txt');
    expect((await app().anonymous.get(picture.full_path)).status).toBe(404);
    await admin().put(`/projects/${place.id}`, { enforce_auth_checks_on_uploads: false });
    expect((await app().anonymous.get(picture.full_path)).status).toBe(200);
    expect((await app().anonymous.get(text.full_path)).status).toBe(404);
    const project = (await admin().get(`/projects/${place.id}`)).body.path_with_namespace.toUpperCase();
    const byPath = (url: string) => app().anonymous.get(`/projects/${encodeURIComponent(project)}${url}`);
    expect((await byPath(picture.url)).status).toBe(200);
    expect((await byPath(text.url)).status).toBe(404);
    const other = await makePlace('project');
    const moved = picture.full_path.replace(`/${place.id}/`, `/${other.id}/`);
    expect((await app().anonymous.get(moved)).status).toBe(404);
  });
});
