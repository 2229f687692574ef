import type { Readable } from 'node:stream';
import type { CallOptions } from './call-options.ts';

/** Repositories made from others, and the bundles for it. Part of `Git` (types.ts). */
export interface GitCloning {
  /** Returns a bundle of HEAD, branches, tags, merge request and keep-around refs, or null if there are none. */
  createBundle(path: string, options?: CallOptions): Promise<Readable | null>;
  /**
   * Creates a new repository from a bundle (a stream or a file), all or nothing. @throws GitError `invalid` for a
   * broken bundle
   */
  fetchBundle(path: string, bundle: Readable | string, options?: FetchBundleOptions): Promise<FetchedBundle>;
  /**
   * Makes `to` a copy of the branches and tags of `from`, or of a single branch, all or nothing. Replaces any
   * repository at `to`. The object files are copied or hard-linked, so neither repository depends on the other.
   *
   * @throws GitError `missing` if the branch does not exist
   */
  copyRepository(from: string, to: string, options: CopyOptions): Promise<{ readonly branches: number }>;
  /**
   * Makes `path` a clone of the branches and tags of another server, all or nothing.
   *
   * @throws GitError `invalid` if the remote cannot be a repository here
   */
  cloneRemote(path: string, remote: Remote, options?: CloneOptions): Promise<FetchedBundle>;
}

export interface FetchBundleOptions extends CallOptions {
  readonly maxInputBytes?: number | undefined;
  /** The maximum number of files and folders of a branch or tag; 0 means unlimited. */
  readonly maxFiles?: number | undefined;
  /** Replaces a repository with content. Otherwise the path must have no repository or an empty one. */
  readonly replace?: boolean | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

export interface FetchedBundle {
  readonly branches: number;
  readonly tags: number;
  /** Branches and tags of the bundle that were left out because of their names. */
  readonly skipped: readonly string[];
  /** Refs outside `refs/heads/` and `refs/tags/`. They are not created, but their objects exist. */
  readonly others: readonly { readonly name: string; readonly oid: string }[];
  /** The branch that the bundle's HEAD names, also set as the repository's HEAD. Null if it is unknown. */
  readonly defaultBranch: string | null;
}

export interface CopyOptions extends CallOptions {
  readonly branch?: string | null | undefined;
  /** The branch that HEAD names, if no single branch is copied. */
  readonly defaultBranch: string;
}

/** The access to a repository on another server. */
export interface Remote {
  /** Returns the response to `GET /info/refs?service=git-upload-pack`. */
  advertisement(): Promise<Readable>;
  /** Returns the response to `POST /git-upload-pack`. */
  request(body: Buffer): Promise<Readable>;
}

export interface CloneOptions extends CallOptions {
  /** The maximum size of the pack; 0 means unlimited. */
  readonly maxInputBytes?: number | undefined;
  /** The maximum number of files and folders of a branch or tag; 0 means unlimited. */
  readonly maxFiles?: number | undefined;
  /** Stops if the server sends nothing for this long. */
  readonly idleTimeoutMs?: number | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}
