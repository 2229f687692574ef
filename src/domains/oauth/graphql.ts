import './graphql/applications.ts';
import './graphql/authorizations.ts';
