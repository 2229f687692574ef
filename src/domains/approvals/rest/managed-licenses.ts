import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { notFound } from '#platform/errors.ts';
import { idOrPath, integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';

const tag = 'Approvals';

const licenseRecord = z
  .object({ id: z.int(), name: z.string(), approval_status: z.string() })
  .meta({ id: 'ManagedLicense' });

/** The nearest to a license approval policy is an approval rule of the report type `license_scanning`. */
const removedInV5 = {
  replacedBy: 'license approval policies, here approval rules: GET /projects/:id/approval_rules',
  successor: '/projects/:id/approval_rules',
};

/** No license is managed here. Version 5 does not have these routes (specification 3 §9). */
export const managedLicenseRoutes: readonly Route[] = [
  listRoute({
    path: '/projects/:id/managed_licenses',
    tag,
    summary: 'List the managed licenses of a project',
    description: 'There are none.',
    paging: 'offset',
    input: { id: idOrPath() },
    item: licenseRecord,
    removedInV5,
    run: async (ctx, { id }) => {
      await getProject(ctx, id);
      return { items: [], total: 0 };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/managed_licenses/:managed_license_id',
    tag,
    summary: 'Get a managed license of a project',
    description: 'There are none.',
    input: { id: idOrPath(), managed_license_id: integer({ min: 1 }) },
    response: licenseRecord,
    removedInV5,
    run: async (ctx, { id }) => {
      await getProject(ctx, id);
      throw notFound('Software License Policy');
    },
  }),
];
