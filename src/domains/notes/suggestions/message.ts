/** The facts that a template for the commits of suggestions may name. */
export interface SuggestionFacts {
  readonly branch_name: string;
  readonly project_path: string;
  readonly project_name: string;
  readonly username: string;
  readonly user_full_name: string;
  readonly file_paths: readonly string[];
  readonly suggestions_count: number;
  /** `Name <address>` of the authors other than the committer. */
  readonly co_authors: readonly string[];
}

const TEMPLATE = `Apply %{suggestions_count} suggestion(s) to %{files_count} file(s)

%{co_authored_by}`;

/** Returns the commit message by a template, or by that of upstream. Unknown placeholders stay as they are. */
export const suggestionMessage = (template: string | null | undefined, facts: SuggestionFacts): string => {
  const values: Readonly<Record<string, string>> = {
    branch_name: facts.branch_name,
    project_path: facts.project_path,
    project_name: facts.project_name,
    username: facts.username,
    user_full_name: facts.user_full_name,
    file_paths: facts.file_paths.join(', '),
    file_path: facts.file_paths.join(', '),
    files_count: String(facts.file_paths.length),
    suggestions_count: String(facts.suggestions_count),
    co_authored_by: facts.co_authors.map((author) => `Co-authored-by: ${author}`).join('\n'),
  };
  const text = template?.trim() ? template : TEMPLATE;
  return text
    .replace(/%\{([a-z_]+)\}/g, (all, name: string) => (Object.hasOwn(values, name) ? (values[name] ?? all) : all))
    .trim();
};
