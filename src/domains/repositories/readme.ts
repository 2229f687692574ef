import type { Context } from '#platform/context.ts';

const README = /^readme(?:\.(?:md|markdown|mkd|rst|adoc|asciidoc|org|txt|rdoc|textile|wiki))?$/i;

/** Returns the path of the readme at the root of the commit, Markdown first. Null if there is none or no commit. */
export const findReadme = async (
  { services: { git } }: Pick<Context, 'services'>,
  path: string,
  oid: string | null,
): Promise<string | null> => {
  if (oid === null) return null;
  const names: string[] = [];
  for await (const entry of git.walkTree(path, oid)) {
    if (entry.type === 'blob' && README.test(entry.path)) names.push(entry.path);
  }
  return names.find((name) => /\.(?:md|markdown|mkd)$/i.test(name)) ?? names[0] ?? null;
};
