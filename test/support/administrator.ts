/** Of `root`, whom every hub of a test begins with. */
export const ADMIN_TOKEN = 'administrator-token-of-the-tests';
export const PASSWORD = 'correct-horse-battery';
