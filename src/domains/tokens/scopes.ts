interface ScopeEntry {
  /** What whoever holds it may do, as a person is told who is to allow it. */
  readonly words: string;
  /** Personal access tokens may have it. */
  readonly personal: boolean;
  /** Applications may ask for it. */
  readonly oauth: boolean;
  /** Only administrators can use it, so only they can give it. */
  readonly administrators: boolean;
}

const both = (words: string): ScopeEntry => ({ words, personal: true, oauth: true, administrators: false });
const administrators = (words: string): ScopeEntry => ({ words, personal: true, oauth: true, administrators: true });
const signIn = (words: string): ScopeEntry => ({ words, personal: false, oauth: true, administrators: false });

/** Every scope there is (conventions §5), the widest first: what it opens in words, and who may hold it. */
const TABLE = {
  api: both('Do everything that you may do through the API: read, change and delete, in all your groups and projects'),
  read_api: both('Read everything that you may read through the API, in all your groups and projects'),
  read_user: both('Read your profile, your e-mail address included, and the profiles of other users'),
  read_repository: both('Download the code of your repositories'),
  write_repository: both('Download the code of your repositories and push to them'),
  create_runner: both('Register runners'),
  manage_runner: both('Change and remove runners'),
  k8s_proxy: both('Reach your Kubernetes clusters through the proxy'),
  self_rotate: both('Replace itself by a new token'),
  sudo: administrators('Act as any other user'),
  admin_mode: administrators('Do what only administrators may do'),
  openid: signIn('Sign you in: know who you are'),
  profile: signIn('Read your name, user name, picture and profile address'),
  email: signIn('Read your e-mail address'),
} as const satisfies Record<string, ScopeEntry>;

export type ScopeName = keyof typeof TABLE;

const isScope = (name: string): name is ScopeName => Object.hasOwn(TABLE, name);

const namesWhere = (has: (entry: ScopeEntry) => boolean): readonly ScopeName[] =>
  Object.keys(TABLE)
    .filter(isScope)
    .filter((name) => has(TABLE[name]));

/** What applications may ask for. */
export const OAUTH_SCOPES = namesWhere((entry) => entry.oauth);

/** What personal access tokens may have. */
export const PERSONAL_SCOPES = namesWhere((entry) => entry.personal);

/** What only administrators may give, and use. */
export const ADMINISTRATORS_SCOPES: ReadonlySet<string> = new Set(namesWhere((entry) => entry.administrators));

/** The scope in words: `read_user` is "Read your profile ...". One that is not known stands for itself. */
export const scopeInWords = (name: string): string => (isScope(name) ? TABLE[name].words : name);
