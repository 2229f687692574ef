import { mutationField } from '#graphql/mutation.ts';
import { rotateSigningKey } from '../signing-keys.ts';

mutationField('oauthSigningKeyRotate', {
  description:
    'Has id tokens signed by another key from now on, by administrators. The old one is shown for a day more, for what it signed.',
  input: () => ({}),
  payload: { kid: 'String' },
  run: async (ctx) => ({ kid: await rotateSigningKey(ctx) }),
});
