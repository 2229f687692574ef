import './graphql/joining.ts';
import './graphql/members.ts';
