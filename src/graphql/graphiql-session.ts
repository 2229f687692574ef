/** The path where the page requests the CSRF token of the user's session. */
export const TOKEN_PATH = '/-/graphql-explorer/token';

/**
 * Returns a script that runs first in the page and adds the signed-in user's CSRF token to GraphQL requests. The script
 * requests the token because the page itself is shared: it is several megabytes, compressed once, and the same for
 * everyone.
 */
export const sessionScript = (endpoint: string): string => `<script>
  (() => {
    const send = window.fetch.bind(window);
    let asked;
    const csrfToken = () =>
      (asked ??= send(${JSON.stringify(TOKEN_PATH)}).then((response) => (response.ok ? response.json() : {})).then(({ token }) => token));
    window.fetch = async (input, init = {}) => {
      const isRequest = input instanceof Request;
      const url = new URL(isRequest ? input.url : input, location.href);
      const token = url.origin === location.origin && url.pathname === ${JSON.stringify(endpoint)} ? await csrfToken() : null;
      if (!token) return send(input, init);
      const headers = new Headers(init.headers ?? (isRequest ? input.headers : undefined));
      headers.set('X-CSRF-Token', token);
      return send(input, { ...init, headers });
    };
  })();
</script>`;
