import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { commitFiles, makeReview } from './support.ts';

const app = useApp();

it('GraphQL lists which lines of CODEOWNERS cannot be understood', async () => {
  const { owner, guest, path, project } = await makeReview(app(), {
    main: { 'docs/CODEOWNERS': '[] @a\n[A][0]\n[B][x]\n* @a\n' },
  });
  const check = async (client: typeof owner, args: string) => {
    const { data } = await client.graphql(`{ project(fullPath: "${project.path_with_namespace}") { repository {
      validateCodeownerFile(${args}) { total validationErrors { code lines } } } } }`);
    return data.project.repository?.validateCodeownerFile ?? null;
  };
  expect(await check(owner, 'ref: "main"')).toEqual({
    total: 3,
    validationErrors: [
      { code: 'missing_section_name', lines: [1] },
      { code: 'invalid_approval_requirement', lines: [2, 3] },
    ],
  });
  expect(await check(owner, 'ref: "main", path: "CODEOWNERS"')).toBeNull();
  expect(await check(owner, 'ref: "main", path: "README.md"')).toBeNull();
  expect(await check(owner, 'ref: "none"')).toBeNull();
  expect(await check(guest, 'ref: "main"')).toBeNull();
  await commitFiles(owner, path, { branch: 'main', files: { CODEOWNERS: '* @a' } });
  expect(await check(owner, 'ref: "main", path: "CODEOWNERS"')).toEqual({ total: 0, validationErrors: [] });
  expect(await check(owner, 'ref: "main", path: "docs/CODEOWNERS"')).toMatchObject({ total: 3 });
});
