import './graphql/applications.ts';
import './graphql/authorizations.ts';
import './graphql/signing-keys.ts';
