import { mutationField } from '#graphql/mutation.ts';
import { reportAbuse } from '../abuse-reports.ts';

mutationField('abuseReportCreate', {
  description: 'Mails a report about a user to `abuseNotificationEmail` of the instance. Nothing is stored.',
  input: (t) => ({
    userId: t.field({ type: 'UserID', required: true }),
    message: t.string({ required: true, description: 'What the user did.' }),
    url: t.string({ description: 'The address of the place where they did it.' }),
  }),
  payload: {},
  run: async (ctx, { userId, message, url }) => {
    await reportAbuse(ctx, { userId, message, url: url ?? undefined });
    return {};
  },
});
