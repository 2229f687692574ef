import type { Exchange } from './route.ts';

/** Returns whether the parameters came in a form or in the address, so that all of them are texts. */
export const hasOnlyTexts = ({ headers }: Pick<Exchange, 'headers'>): boolean =>
  !headers['content-type']?.toLowerCase().startsWith('application/json');
