import { PEOPLE, WATCHED } from './watched.ts';

/** A list of projects that tools request. */
export interface ListRequest {
  readonly name: string;
  /** The owner of the token. Anonymous when absent. */
  readonly as?: keyof typeof PEOPLE;
  /** A path below /api/v4, or a GraphQL query. */
  readonly path: string | { readonly query: string };
  /** The number of matches is the same in every filled database, so the compared work is the same. */
  readonly sameMatches?: boolean;
}

const { rareTerm, rarePair, commonTerm, rareTopic, commonTopic, rareLanguage, commonLanguage, group } = WATCHED;
const PAGE = '/projects';
const KEYSET = '/projects?pagination=keyset&order_by=id';

const of = (
  as: keyof typeof PEOPLE | undefined,
  lists: Readonly<Record<string, string>>,
  same = false,
): ListRequest[] =>
  Object.entries(lists).map(([name, path]) => ({
    name: `${as ?? 'anonymous'}: ${name}`,
    ...(as ? { as } : {}),
    path,
    sameMatches: same,
  }));

const graphql = (as: keyof typeof PEOPLE | undefined, lists: Readonly<Record<string, string>>): ListRequest[] =>
  Object.entries(lists).map(([name, query]) => ({
    name: `${as ?? 'anonymous'}: GraphQL ${name}`,
    ...(as ? { as } : {}),
    path: { query },
  }));

const FIELDS = 'nodes { id fullPath name description visibility starCount lastActivityAt }';
const GRAPHQL = {
  'projects, flat': `{ projects(first: 20) { ${FIELDS} } }`,
  'projects with count': `{ projects(first: 20) { count ${FIELDS} } }`,
  'search, rare': `{ projects(first: 20, search: "${rareTerm}") { ${FIELDS} } }`,
  'search, common': `{ projects(first: 20, search: "${commonTerm}") { ${FIELDS} } }`,
  'nested, groups and their projects': `{ groups(first: 10) { nodes { fullPath projects(first: 10) { nodes { fullPath name namespace { fullPath } group { name } } } } } }`,
  'group with subgroups': `{ group(fullPath: "${group}") { projects(first: 20, includeSubgroups: true) { ${FIELDS} } } }`,
};

/** Returns the common lists. `middle` is an id in the middle of all project ids. */
export const commonLists = (middle: number): ListRequest[] => [
  ...of(undefined, {
    'first page': PAGE,
    'keyset, first page': KEYSET,
    'keyset, deep': `${KEYSET}&id_before=${middle}`,
    'page 200': `${PAGE}?page=200`,
    'search, common': `${PAGE}?search=${commonTerm}`,
    'order by name': `${PAGE}?order_by=name&sort=asc`,
    'order by last activity': `${PAGE}?order_by=last_activity_at`,
    'order by stars': `${PAGE}?order_by=star_count`,
    'topic, common': `${PAGE}?topic=${commonTopic}`,
    'language, common': `${PAGE}?with_programming_language=${commonLanguage}`,
  }),
  ...of(
    undefined,
    {
      'search, rare': `${PAGE}?search=${rareTerm}`,
      'search, two letters': `${PAGE}?search=${rarePair}`,
      'topic, rare': `${PAGE}?topic=${rareTopic}`,
      'language, rare': `${PAGE}?with_programming_language=${rareLanguage}`,
      'group with subgroups': `/groups/${group}/projects?include_subgroups=true`,
    },
    true,
  ),
  ...of('few', {
    'first page': PAGE,
    'keyset, first page': KEYSET,
    'keyset, deep': `${KEYSET}&id_before=${middle}`,
    'page 200': `${PAGE}?page=200`,
    'search, common': `${PAGE}?search=${commonTerm}`,
    'order by name': `${PAGE}?order_by=name&sort=asc`,
    'order by last activity': `${PAGE}?order_by=last_activity_at`,
    'order by update': `${PAGE}?order_by=updated_at`,
    'order by stars': `${PAGE}?order_by=star_count`,
    'topic, common': `${PAGE}?topic=${commonTopic}`,
    'public ones': `${PAGE}?visibility=public`,
    'not archived, with issues': `${PAGE}?archived=false&with_issues_enabled=true`,
    'language, common': `${PAGE}?with_programming_language=${commonLanguage}`,
  }),
  ...of(
    'few',
    {
      'private ones': `${PAGE}?visibility=private`,
      'search, rare': `${PAGE}?search=${rareTerm}`,
      'search, rare, by similarity': `${PAGE}?search=${rareTerm}&order_by=similarity`,
      'search, two letters': `${PAGE}?search=${rarePair}`,
      'search, two letters, by similarity': `${PAGE}?search=${rarePair}&order_by=similarity`,
      membership: `${PAGE}?membership=true`,
      'membership, by last activity': `${PAGE}?membership=true&order_by=last_activity_at`,
      owned: `${PAGE}?owned=true`,
      starred: `${PAGE}?starred=true`,
      'developer and above': `${PAGE}?min_access_level=30`,
      'topic, rare': `${PAGE}?topic=${rareTopic}`,
      'language, rare': `${PAGE}?with_programming_language=${rareLanguage}`,
      'of a user': `/users/${PEOPLE.large.username}/projects`,
      'group with subgroups': `/groups/${group}/projects?include_subgroups=true`,
    },
    true,
  ),
  ...of('large', { 'first page': PAGE }),
  ...of(
    'large',
    {
      membership: `${PAGE}?membership=true`,
      'membership, search': `${PAGE}?membership=true&search=${commonTerm}`,
      'membership, search, by similarity': `${PAGE}?search=${commonTerm}&order_by=similarity`,
      'membership, by name': `${PAGE}?membership=true&order_by=name&sort=asc`,
      'developer and above': `${PAGE}?min_access_level=30`,
      'group with subgroups': `/groups/${group}/projects?include_subgroups=true`,
      'group with subgroups, search': `/groups/${group}/projects?include_subgroups=true&search=${rareTerm}`,
    },
    true,
  ),
  ...of('administrator', {
    'first page': PAGE,
    'keyset, first page': KEYSET,
    'keyset, deep': `${KEYSET}&id_before=${middle}`,
    'page 500': `${PAGE}?page=500`,
    'search, common': `${PAGE}?search=${commonTerm}`,
    'order by name': `${PAGE}?order_by=name&sort=asc`,
    'order by size': `${PAGE}?order_by=storage_size`,
    'with statistics': `${PAGE}?statistics=true`,
    'private ones': `${PAGE}?visibility=private`,
  }),
  ...of(
    'administrator',
    {
      'search, rare': `${PAGE}?search=${rareTerm}`,
      'search, two letters': `${PAGE}?search=${rarePair}`,
      'search, two letters, with namespaces': `${PAGE}?search=${rarePair}&search_namespaces=true`,
    },
    true,
  ),
  ...graphql(undefined, GRAPHQL),
  ...graphql('few', {
    ...GRAPHQL,
    'membership with count': `{ projects(first: 20, membership: true) { count ${FIELDS} } }`,
    'first page by name': `{ projects(first: 20, sort: "name_asc") { ${FIELDS} } }`,
  }),
];
