import './graphql/mutations.ts';
