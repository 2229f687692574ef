/** Paths that usually contain a private key, a password or a token. Case-insensitive. */
const SECRET_FILES: readonly RegExp[] = [
  // SSH keys
  /(^|\/)id_(rsa|dsa|ecdsa|ecdsa_sk|ed25519|ed25519_sk)$/i,
  /(^|\/)(personal|server|deploy)_(rsa|dsa|ecdsa|ed25519)$/i,
  /(^|\/)ssh_host_[a-z0-9]+_key$/i,
  /\.ppk$/i,
  // keys and key stores
  /\.(pem|key|p12|pfx|pkcs12|jks|keystore|kdb|kdbx)$/i,
  /(^|\/)secring\.(gpg|pgp)$/i,
  // passwords and tokens of tools
  /(^|\/)[._]netrc$/i,
  /(^|\/)\.(pgpass|my\.cnf|htpasswd|git-credentials|dockercfg|vault-token|s3cfg)$/i,
  /(^|\/)\.aws\/credentials$/i,
  /(^|\/)aws\/credentials$/i,
  /(^|\/)\.docker\/config\.json$/i,
  /(^|\/)\.kube\/config$/i,
  // Shell and client history
  /(^|\/)\.(bash|zsh|sh|ksh|mysql|psql|sqlite|python|node_repl|irb|rediscli)_?history$/i,
];

/** Returns true if a file with this path usually contains a secret. */
export const isSecretFile = (path: string): boolean => SECRET_FILES.some((pattern) => pattern.test(path));
