import { mutationField } from '#graphql/mutation.ts';
import { rotateSigningKey } from '../signing-keys.ts';

mutationField('oauthSigningKeyRotate', {
  description:
    'Replaces the key that signs id tokens. The old public key stays published for a day, to verify tokens that it signed. Administrators only.',
  input: () => ({}),
  payload: { kid: 'String' },
  run: async (ctx) => ({ kid: await rotateSigningKey(ctx) }),
});
