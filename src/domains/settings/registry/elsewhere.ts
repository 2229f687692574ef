import { z } from 'zod';
import { flag, idOrNull, type SettingFacts, setting, whole, words } from './define.ts';
import { httpUrl, networks } from './values.ts';

const withoutEffect = { withoutEffect: true } as const satisfies SettingFacts;

/** Registries, packages, wikis, other sites and other products, which are not part of this one. */
export const elsewhere = {
  container_registry_token_expire_delay: whole(
    1,
    1_000_000,
    5,
    'Lifetime of a token for the container registry, in minutes.',
    withoutEffect,
  ),
  container_registry_expiration_policies_worker_capacity: whole(
    0,
    10_000,
    4,
    'Number of jobs that clean container repositories at a time.',
    withoutEffect,
  ),
  container_registry_cleanup_tags_service_max_list_size: whole(
    0,
    1_000_000,
    200,
    'Number of tags that one run of such a job deletes.',
    withoutEffect,
  ),
  container_registry_delete_tags_service_timeout: whole(
    0,
    86_400,
    250,
    'Maximum time to delete the tags of a batch, in seconds.',
    withoutEffect,
  ),
  container_registry_expiration_policies_caching: flag(true, 'Whether such a job caches tags.', withoutEffect),
  container_expiration_policies_enable_historic_entries: flag(
    false,
    'Whether old projects can have cleanup policies of their container repositories.',
    withoutEffect,
  ),
  package_registry_cleanup_policies_worker_capacity: whole(
    0,
    10_000,
    2,
    'Number of jobs that clean package registries at a time.',
    withoutEffect,
  ),
  package_registry_allow_anyone_to_pull_option: flag(
    true,
    'Whether package registries can be opened to everyone.',
    withoutEffect,
  ),
  maven_package_requests_forwarding: flag(
    false,
    'Whether requests for unknown Maven packages are forwarded.',
    withoutEffect,
  ),
  npm_package_requests_forwarding: flag(
    false,
    'Whether requests for unknown npm packages are forwarded.',
    withoutEffect,
  ),
  pypi_package_requests_forwarding: flag(
    false,
    'Whether requests for unknown PyPI packages are forwarded.',
    withoutEffect,
  ),
  nuget_skip_metadata_url_validation: flag(
    false,
    'Whether URLs in the metadata of NuGet packages are not checked.',
    withoutEffect,
  ),
  wiki_page_max_content_bytes: whole(
    1_024,
    2_147_483_647,
    52_428_800,
    'Maximum size of a wiki page, in bytes.',
    withoutEffect,
  ),
  asciidoc_max_includes: whole(0, 64, 32, 'Number of includes in an AsciiDoc document.', withoutEffect),
  terminal_max_session_time: whole(
    0,
    2_147_483_647,
    0,
    'Maximum time of a web terminal, in seconds. 0 is unlimited.',
    withoutEffect,
  ),
  polling_interval_multiplier: setting(
    z.number().min(0).max(1_000).default(1),
    'Factor for the intervals in which pages ask for news.',
    withoutEffect,
  ),
  performance_bar_allowed_group_id: idOrNull(
    'group',
    'The group whose members see the performance bar.',
    withoutEffect,
  ),
  geo_node_allowed_ips: setting(
    networks.default('0.0.0.0/0, ::/0'),
    'Addresses and networks of secondary sites.',
    withoutEffect,
  ),
  geo_status_timeout: whole(
    1,
    3_600,
    10,
    'How long to wait for the status of a secondary site, in seconds.',
    withoutEffect,
  ),
  tracker_connect_application_key: words(255, 'Identifier of the application that connects an issue tracker.', {
    otherNames: ['jira_connect_application_key'],
    withoutEffect: true,
  }),
  tracker_connect_public_key_storage_enabled: flag(false, 'Whether the hub keeps public keys of such applications.', {
    otherNames: ['jira_connect_public_key_storage_enabled'],
    withoutEffect: true,
  }),
  tracker_connect_proxy_url: setting(httpUrl.default(''), 'Address of the proxy to an issue tracker.', {
    otherNames: ['jira_connect_proxy_url'],
    withoutEffect: true,
  }),
  assistant_features_enabled: flag(false, 'Whether the assistant is on.', {
    otherNames: ['duo_features_enabled'],
    withoutEffect: true,
  }),
  lock_assistant_features_enabled: flag(false, 'Whether groups and projects cannot change that.', {
    otherNames: ['lock_duo_features_enabled'],
    withoutEffect: true,
  }),
  security_policy_global_group_approvers_enabled: flag(
    true,
    'Whether security policies find their approvers in all groups.',
    withoutEffect,
  ),
  security_approval_policies_limit: whole(
    1,
    10_000,
    5,
    'Number of merge request approval policies of a security policy project.',
    withoutEffect,
  ),
  check_namespace_plan: flag(false, 'Whether features depend on the plan of a namespace.', withoutEffect),
  automatic_purchased_storage_allocation: flag(
    false,
    'Whether purchased storage is allocated by itself.',
    withoutEffect,
  ),
  use_columnstore_for_analytics: flag(false, 'Whether analytics read a column store.', {
    otherNames: ['use_clickhouse_for_analytics'],
    withoutEffect: true,
  }),
  usage_ping_enabled: flag(
    false,
    'Whether statistics of use are sent to the vendor. This hub sends none.',
    withoutEffect,
  ),
  include_optional_metrics_in_service_ping: flag(false, 'Whether these include optional ones.', withoutEffect),
  version_check_enabled: flag(
    false,
    'Whether the hub asks the vendor for newer versions. This hub asks nobody.',
    withoutEffect,
  ),
};
