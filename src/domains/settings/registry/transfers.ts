import { z } from 'zod';
import { flag, setting, whole } from './define.ts';

const NO_IMPORTER = 'This hub has no such importer: `concurrent_url_imports_limit` limits its imports by URL.';

/** Exports and imports. */
export const transfers = {
  project_export_enabled: flag(true, 'Whether projects can be exported.'),
  max_export_size: whole(0, 1_000_000, 0, 'Maximum size of an export archive, in MiB. 0 is unlimited.'),
  import_sources: setting(
    z.array(z.enum(['git', 'gitlab_project'])).default(['git', 'gitlab_project']),
    'Sources that projects can be imported from: `git` is a URL, `gitlab_project` an archive.',
  ),
  max_import_size: whole(
    0,
    1_000_000,
    0,
    'Maximum size of an archive that is uploaded for an import, in MiB. 0 is unlimited.',
  ),
  max_import_remote_file_size: whole(
    0,
    10_240,
    10_240,
    'Maximum size of an archive that is imported by URL or from S3, in MiB. 0 is 10 GB, the most allowed.',
  ),
  import_project_from_remote_file: flag(true, 'Own setting: whether archives can be imported by URL and from S3.'),
  max_decompressed_archive_size: whole(
    0,
    10_000_000,
    25_600,
    'Maximum size of an unpacked archive, and of a repository imported by URL, in MiB. 0 is unlimited.',
  ),
  decompress_archive_file_timeout: whole(
    0,
    86_400,
    210,
    'Maximum time to unpack an archive, in seconds. 0 is unlimited.',
  ),
  export_file_lifetime_hours: whole(
    1,
    8_760,
    24,
    'Own setting: how long a finished export can be downloaded, and a failed import retried.',
  ),
  snippet_size_limit: whole(
    0,
    2_147_483_647,
    52_428_800,
    'Maximum size of an imported snippet, in bytes. Larger ones are left out and listed in `failed_relations`. 0 is unlimited.',
  ),
  silent_admin_exports_enabled: flag(false, 'Whether owners get no mail when an administrator exports a project.', {
    withoutEffect: true,
  }),
  concurrent_url_imports_limit: whole(
    0,
    1_000_000,
    20,
    "Number of a user's imports by URL that can be queued or running at a time. 0 is unlimited.",
  ),
  concurrent_hostedgit_import_jobs_limit: whole(
    1,
    1_000_000,
    1_000,
    `Number of jobs that import from the API of a hosted platform at a time. ${NO_IMPORTER}`,
    { otherNames: ['concurrent_github_import_jobs_limit'], withoutEffect: true },
  ),
  concurrent_cloudrepo_import_jobs_limit: whole(
    1,
    1_000_000,
    100,
    `Number of jobs that import from the API of a cloud repository at a time. ${NO_IMPORTER}`,
    { otherNames: ['concurrent_bitbucket_import_jobs_limit'], withoutEffect: true },
  ),
  concurrent_serverrepo_import_jobs_limit: whole(
    1,
    1_000_000,
    100,
    `Number of jobs that import from the API of a repository server at a time. ${NO_IMPORTER}`,
    { otherNames: ['concurrent_bitbucket_server_import_jobs_limit'], withoutEffect: true },
  ),
  bulk_import_enabled: flag(
    false,
    'Whether groups can be copied directly from another instance. This hub moves projects by archives.',
    {
      withoutEffect: true,
    },
  ),
  bulk_import_max_download_file_size: whole(
    0,
    1_000_000,
    5_120,
    'Maximum size of a file that such a copy downloads, in MiB. 0 is unlimited. `max_import_remote_file_size` limits archives that are downloaded.',
    { withoutEffect: true },
  ),
  bulk_import_concurrent_pipeline_batch_limit: whole(
    1,
    10_000,
    25,
    'Number of batches that such a copy works on at a time.',
    { withoutEffect: true },
  ),
};
