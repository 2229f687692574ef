import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, idOrPath, text } from '#rest/params.ts';
import { listRoute } from '#rest/route.ts';
import { getFolder, listEntries } from '../queries/trees.ts';

const treeRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    type: z.enum(['tree', 'blob', 'commit']),
    path: z.string(),
    mode: z.string(),
  })
  .meta({ id: 'TreeEntry' });

export const treeRoutes = [
  listRoute({
    path: '/projects/:id/repository/tree',
    tag: 'Repositories',
    summary: 'List files and folders',
    description:
      'Lists the content of one folder: folders first, then files, then submodules (`commit`). With `recursive`, includes all subfolders. `pagination=keyset` continues after `page_token`, which is a path.',
    auth: 'optional',
    input: {
      id: idOrPath(),
      path: text({ max: 4_096 }).optional(),
      ref: text({ max: 1_000 }).optional(),
      recursive: boolean().default(false),
    },
    item: treeRecord,
    paging: { keyset: 'name' },
    run: async (ctx, { id, recursive, ...place }, wanted) => {
      const project = await getProject(ctx, id);
      const folder = await getFolder(ctx, project, place);
      const page = await readPage(listEntries(ctx, project, folder, { recursive }), wanted);
      return {
        ...page,
        items: page.items.map(({ oid, path, type, mode }) => ({
          id: oid,
          name: path.slice(path.lastIndexOf('/') + 1),
          type,
          path,
          mode,
        })),
      };
    },
  }),
];
