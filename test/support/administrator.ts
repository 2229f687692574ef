/** The token of `root`, the administrator of every test hub. */
export const ADMIN_TOKEN = 'administrator-token-of-the-tests';
export const PASSWORD = 'correct-horse-battery';
