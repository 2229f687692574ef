import './graphql/groups.ts';
import './graphql/joining.ts';
import './graphql/members.ts';
