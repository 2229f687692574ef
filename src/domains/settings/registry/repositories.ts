import { z } from 'zod';
import { flag, setting, whole } from './define.ts';
import { httpUrl } from './values.ts';

/** Git repositories: pushes, diffs, storage and housekeeping. */
export const repositories = {
  receive_max_input_size: whole(0, 1_000_000, 0, 'Maximum pack size of a push, in MiB. 0 is unlimited.'),
  push_max_files: whole(
    0,
    100_000_000,
    500_000,
    'Own setting: maximum number of files and folders in a pushed or imported branch or tag. 0 is unlimited.',
  ),
  diff_max_files: whole(
    1,
    10_000,
    1_000,
    'Maximum number of files in the diff of a commit or comparison. Further files are left out.',
  ),
  diff_max_lines: whole(
    1,
    1_000_000,
    50_000,
    'Maximum length of the patches in a response, in lines. Further patches are left out (`collapsed`).',
  ),
  diff_max_patch_bytes: whole(
    1_024,
    10_485_760,
    204_800,
    'Maximum size of a patch, in bytes. Larger ones are left out (`too_large`).',
  ),
  housekeeping_optimize_repository_period: whole(
    1,
    1_000_000,
    10,
    'Number of pushes after which the objects and refs of a repository are packed and its commit graph is written. Ten refs of one push count as a push. Every twentieth packing also removes objects that have long been unreachable.',
  ),
  repository_storages_weighted: setting(
    z.record(z.string().max(255), z.int().min(0).max(100)).default({ default: 100 }),
    'How new repositories are distributed among storages: names with weights from 0 to 100. There is only one storage.',
    { withoutEffect: true },
  ),
  custom_http_clone_url_root: setting(
    httpUrl.default(''),
    'Address that clone URLs over HTTP start with. Those of this hub start with `MILLRACE_EXTERNAL_URL`.',
    { withoutEffect: true },
  ),
  authorized_keys_enabled: flag(false, 'Whether an `authorized_keys` file is written for git over SSH.', {
    withoutEffect: true,
  }),
};
